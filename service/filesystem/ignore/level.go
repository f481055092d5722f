package ignore

// Files are the ignore files of one directory; a nil one is not there.
type Files struct {
	// DotIgnore is the directory's .ignore. Wherever it stands, it beats git's files.
	DotIgnore *File
	// GitIgnore is the directory's .gitignore.
	GitIgnore *File
	// Exclude is info/exclude of the repository whose top the directory is.
	Exclude *File
	// Repository says that the directory is the top of a git repository: git's
	// files further up do not hold in it.
	Repository bool
}

// MaxWildcardBytes bounds what it costs to judge a name: the patterns of all files
// that hold in a directory have at most so many bytes from their first wildcard
// on. Patterns without wildcards and those like "*.log" do not count.
const MaxWildcardBytes = 64 << 10

// A Level is the rules that hold in a directory: its own and those from above. A
// nil Level has none.
type Level struct {
	parent *Level
	dir    string // "" or ends in a slash
	up     string // of a level above the top: the way from it to the top, ending in a slash
	files  Files
	global *File // the user's own
	wild   int   // bytes of patterns that count, here and above
	unused int   // files over the bound, here and above
}

// Global gives the level above all others, with the user's own rules. They come
// last, and hold as if they stood in the top of the repository that a path is in, or,
// outside of one, in the top of what is searched.
func Global(f *File) *Level {
	if f == nil {
		return nil
	}
	if f.wild > MaxWildcardBytes {
		return &Level{unused: 1}
	}
	return &Level{global: f, wild: f.wild}
}

// Enter gives the level of the directory dir, which is below l's. dir is
// relative to the same top as every path that is judged: "" for the top itself,
// otherwise ending in a slash. A file with which the level would be over
// [MaxWildcardBytes] is not used at all, as if it were not there: with a part of
// it, a name could be left out that its last lines take in.
func (l *Level) Enter(dir string, files Files) *Level { return l.enter(dir, "", files) }

// EnterAbove gives the level of a directory above the top, which is below l's; up is
// the way from there to the top, ending in a slash.
func (l *Level) EnterAbove(up string, files Files) *Level { return l.enter("", up, files) }

func (l *Level) enter(dir, up string, files Files) *Level {
	if files == (Files{}) {
		return l
	}
	below := &Level{parent: l, dir: dir, up: up, files: files}
	if l != nil {
		below.wild, below.unused, below.global = l.wild, l.unused, l.global
	}
	for _, f := range []**File{&below.files.DotIgnore, &below.files.GitIgnore, &below.files.Exclude} {
		switch {
		case *f == nil:
		case below.wild+(*f).wild > MaxWildcardBytes:
			*f = nil
			below.unused++
		default:
			below.wild += (*f).wild
		}
	}
	return below
}

// Unused is how many files of the level's directory and of those above it are not
// used because they are too large.
func (l *Level) Unused() int {
	if l == nil {
		return 0
	}
	return l.unused
}

// Match judges a path below the level's directory: for each kind of file the
// nearest one that says something, and between the kinds .ignore before
// .gitignore before .git/info/exclude before the user's own rules.
func (l *Level) Match(path string, directory bool) Verdict {
	if l == nil {
		return None
	}
	git, exclude := None, None
	repository, inRepository, global := false, path, l.global
	for ; l != nil; l = l.parent {
		relative := path[len(l.dir):]
		if l.up != "" {
			relative = l.up + path
		}
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
		if repository = l.files.Repository; repository {
			inRepository = relative
		}
	}
	switch {
	case git != None:
		return git
	case exclude != None:
		return exclude
	}
	return global.Match(inRepository, directory)
}
