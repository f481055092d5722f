package ignore

// Files are the ignore files of one directory; a nil one is not there.
type Files struct {
	// DotIgnore is the directory's .ignore. Wherever it stands, it beats git's files.
	DotIgnore *File
	// GitIgnore is the directory's .gitignore.
	GitIgnore *File
	// Exclude is .git/info/exclude of the repository whose top the directory is.
	Exclude *File
	// Repository says that the directory is the top of a git repository: git's
	// files further up do not hold in it.
	Repository bool
}

// A Level is the rules that hold in a directory: its own and those from above. A
// nil Level has none.
type Level struct {
	parent *Level
	dir    string // "" or ends in a slash
	files  Files
}

// Enter gives the level of the directory dir, which is below l's. dir is
// relative to the same top as every path that is judged: "" for the top itself,
// otherwise ending in a slash.
func (l *Level) Enter(dir string, files Files) *Level {
	if files == (Files{}) {
		return l
	}
	return &Level{parent: l, dir: dir, files: files}
}

// Match judges a path below the level's directory: for each kind of file the
// nearest one that says something, and between the kinds .ignore before
// .gitignore before .git/info/exclude.
func (l *Level) Match(path string, directory bool) Verdict {
	git, exclude := None, None
	repository := false
	for ; l != nil; l = l.parent {
		relative := path[len(l.dir):]
		if v := l.files.DotIgnore.Match(relative, directory); v != None {
			return v
		}
		if repository {
			continue
		}
		if git == None {
			git = l.files.GitIgnore.Match(relative, directory)
		}
		if exclude == None {
			exclude = l.files.Exclude.Match(relative, directory)
		}
		repository = l.files.Repository
	}
	if git != None {
		return git
	}
	return exclude
}
