package service

// The actions of the built-in tools and services. The action of any other tool
// is its canonical id.
const (
	ActionRead = "read"
	ActionList = "list"
	ActionGlob = "glob"
	ActionGrep = "grep"
	ActionEdit = "edit"
)
