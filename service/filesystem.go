package service

import "fmt"

// What a page and a search hold at most. They are the limits of the answers,
// not of the files.
const (
	// PageLines is the most lines in a page of [FileSystem].Read.
	PageLines = 2000
	// PageBytes is the most bytes of text in a page.
	PageBytes = 50 << 10
	// MaxImage is the most bytes of an image that is read.
	MaxImage = 5 << 20
	// MaxUnsized is how much is read of a file that says that it has no bytes, and has
	// some, as those of procfs do.
	MaxUnsized = 16 << 20
	// ChunkBytes is the most bytes of a file that are read at once as they are.
	ChunkBytes = 64 << 10
	// LineBytes is where a single line of a page is cut.
	LineBytes = 2000
	// MatchLineBytes is the width of the window around a match in a long line.
	MatchLineBytes = 500
	// DefaultMatches is the limit of grep when none is asked for.
	DefaultMatches = 200
	// DefaultEntries is the limit of list and glob when none is asked for.
	DefaultEntries = 1000
	// MaxEntries is the highest limit that may be asked for in list, glob and grep.
	MaxEntries = 10000
	// MaxContext is the most lines of context on each side of a match.
	MaxContext = 20
	// MaxDepth is how deep list goes at most.
	MaxDepth = 16
	// MaxPattern is the most bytes of a pattern of glob and grep.
	MaxPattern = 4 << 10
	// MatchBlockBytes is the same for a match of several lines.
	MatchBlockBytes = 2000
	// GrepBytes is the most bytes of text and paths in an answer of grep, context
	// included: as many matches as there may be, each as long as it is shown.
	GrepBytes = 6 << 20
	// GrepFileBytes is the size of the largest file that is searched.
	GrepFileBytes = 256 << 20
	// MaxIncomplete is how many files GrepResult.Incomplete names at most.
	MaxIncomplete = 20
)

// FileKind is what a name refers to.
type FileKind string

// The kinds of files. Only regular files and directories can be opened.
const (
	RegularFile FileKind = "file"
	Directory   FileKind = "directory"
	Symlink     FileKind = "symlink"
	SpecialFile FileKind = "special" // devices, sockets, pipes
)

// RootInfo describes an open handle on a file or directory of the Location. The
// handle itself is the engine's or the SDK's; it is valid for the call that
// resolved it, and what was permitted is what it opens, whatever the name
// refers to later.
type RootInfo struct {
	// Resource is the root-relative, slash-separated path, "." for the
	// Location's root: what permission is asked for. It is the spelled path,
	// cleaned.
	Resource string
	// Resolved is the path with every link resolved; equal to Resource when
	// there is none on the way (law 39: both are judged).
	Resolved string
	// Kind is RegularFile or Directory.
	Kind FileKind
}

// ReadQuery asks for a page of a file.
type ReadQuery struct {
	// Offset is the first line wanted, counted from 1; 0 means 1. A negative
	// offset counts from the end: -10 starts at the tenth line from the last. An image
	// has no lines, and takes neither an offset nor a limit.
	Offset int
	// Limit is how many lines are wanted: 1 to PageLines, 0 for PageLines.
	Limit int
}

// BytesQuery asks for the bytes of a file as they are, whatever they are.
type BytesQuery struct {
	// Offset is where they begin, from 0. Behind the end there are none.
	Offset int64
	// Length is how many they are at most; 0 is all that follow.
	Length int64
}

// Page is a part of a text file, or an image.
type Page struct {
	// Text holds whole lines, each ended as in the file; a line over LineBytes is
	// cut and marked in CutLines. Text is valid UTF-8: UTF-16 with a byte order
	// mark is decoded, and in other encodings each invalid byte is U+FFFD.
	Text string
	// First is the number of the first line, from 1; 0 when the page is empty, and -1
	// when it was read from the end and counting the lines before it would have cost
	// reading more than the engine is willing to.
	First int
	// Lines is how many lines Text has.
	Lines int
	// TotalLines is how many lines the file has, or -1 when counting them would have
	// cost reading more than the engine is willing to.
	TotalLines int
	// More says that lines follow the page.
	More bool
	// CutLines lists the numbers of the lines that were cut; where First is -1 they are
	// counted from the beginning of the page.
	CutLines []int
	// Size is the size of the file in bytes; of one that says 0 and has content, how much
	// that is, or -1 when it is more than MaxUnsized.
	Size int64
	// Encoding is "utf-8", "utf-16le", "utf-16be", or "unknown-8bit"; empty for an image.
	Encoding string
	// BOM says that the file begins with a byte order mark; it is not in Text.
	BOM bool
	// Media is the image, when the file is one: then all of the above but Size is empty.
	Media *Media
}

// Media is a file that is not for reading but for looking at.
type Media struct {
	// Type is image/png, image/jpeg, image/gif or image/webp: what the file begins as,
	// whatever its name says.
	Type string
	// Data is the whole file. Nothing says that it is a valid image.
	Data []byte
}

// Skipped counts what an answer leaves out, by reason, so that "nothing found"
// is never said of what was not looked at. Only what could have been in the
// answer is counted: for glob, and for grep with an include, the names that
// match. A directory that is not entered counts as one. Of an answer that is
// truncated, what stands before the cut is counted. Directories of version
// control (.git, .hg, .svn, .jj) are never entered unless they were named, and
// are not counted.
type Skipped struct {
	// Ignored were left out by ignore files.
	Ignored int
	// Hidden begin with a dot, and no ignore file takes them in.
	Hidden int
	// Links are symbolic links, which glob and grep do not follow.
	Links int
	// Binary were not searched, or only up to the byte that showed that they are binary.
	Binary int
	// Denied are not readable (grep, glob) or listable (list) under the rules (law 39).
	Denied int
	// Unreadable could not be opened: the operating system refused, or they are special files.
	Unreadable int
	// TooLarge are over GrepFileBytes.
	TooLarge int
}

// ListQuery asks for the entries below a directory. Everything is listed, hidden
// and ignored names too. Ignored directories and those of version control are
// listed, but not entered unless they were named.
type ListQuery struct {
	// Depth is how deep to go: 1 lists the directory itself. 0 means 1; at most MaxDepth.
	Depth int
	// Limit is the most entries: 1 to MaxEntries, 0 for DefaultEntries.
	Limit int
}

// Entry is a name in a directory.
type Entry struct {
	// Path is root-relative and slash-separated.
	Path string
	Kind FileKind
	// Size is the size of a regular file in bytes, otherwise 0.
	Size int64
	// Target is where a link points, as it is written; empty for anything else.
	Target string
}

// Listing is what is below a directory: sorted by name, each directory before
// what is in it.
type Listing struct {
	Entries []Entry
	// Truncated says that there are more than the limit.
	Truncated bool
	// Skipped counts under Ignored the listed directories that were not entered.
	Skipped Skipped
}

// GlobQuery asks for the files whose path matches a pattern.
type GlobQuery struct {
	// Pattern is matched against the path relative to the handle. `**` matches
	// any number of directories, `*` and `?` stop at slashes, `{a,b}` and `[a-z]`
	// are as usual. A pattern without a slash matches names at any depth. A part
	// that begins with a dot takes in hidden names that it matches. The engine's
	// documentation has a table.
	Pattern string
	// Sort is the order of the paths: GlobByPath, which is the zero value too, or
	// GlobByTime.
	Sort GlobSort
	// Limit is the most paths: 1 to MaxEntries, 0 for DefaultEntries.
	Limit int
}

// GlobSort is an order of paths.
type GlobSort string

const (
	// GlobByPath sorts by path, byte by byte.
	GlobByPath GlobSort = "path"
	// GlobByTime puts the file first that was changed last; files of one time are
	// sorted by path. All files are looked at, whatever the limit.
	GlobByTime GlobSort = "time"
)

// GlobResult is the regular files that match, in the order that was asked for.
type GlobResult struct {
	// Paths are root-relative and slash-separated.
	Paths     []string
	Truncated bool
	Skipped   Skipped
}

// GrepQuery asks for the lines that match a pattern.
type GrepQuery struct {
	// Pattern is a regular expression in RE2 syntax, or a literal text.
	Pattern string
	// Literal takes Pattern as it is.
	Literal bool
	// IgnoreCase ignores the case of letters.
	IgnoreCase bool
	// Multiline lets a match span lines; "^" and "$" still hold at each of them, and
	// "." takes no line feed unless the pattern says (?s). Line ends are as in the file:
	// a carriage return is a character.
	Multiline bool
	// Include limits the search to files whose path matches this glob; see GlobQuery.Pattern.
	Include string
	// Type limits it to files of a type, such as "go"; the engine's documentation lists
	// them, and so does the error for one that is not known.
	Type string
	// Mode is what is wanted: GrepContent, which is the zero value too, GrepFiles or
	// GrepCount.
	Mode GrepMode
	// Context is how many lines before and after a match are wanted, at most
	// MaxContext; of GrepContent only.
	Context int
	// Limit is the most matching lines: 1 to MaxEntries, 0 for DefaultMatches. In the
	// other modes it is the most files, and 0 stands for DefaultEntries.
	Limit int
}

// GrepMode is what a search is for.
type GrepMode string

const (
	// GrepContent gives the lines that match.
	GrepContent GrepMode = "content"
	// GrepFiles gives the files that have a match. Each is searched up to its first, and
	// the search ends with the first file over the limit.
	GrepFiles GrepMode = "files"
	// GrepCount gives those files with the number of their lines that match, or, with
	// Multiline, of matches; it ends as GrepFiles does.
	GrepCount GrepMode = "count"
)

// Match is a line that matches.
type Match struct {
	// Path is root-relative and slash-separated.
	Path string
	// Line is the line's number, from 1.
	Line int
	// Column is where the first match in the line begins, in bytes from 1.
	Column int
	// Lines is how many lines a match has that spans several, else 0. Line is the first.
	Lines int
	// Text is the line, or lines, without the last end, valid UTF-8; of a line over
	// MatchLineBytes, or several over MatchBlockBytes, it is a window around where the
	// match begins.
	Text string
	// CutBefore and CutAfter are how many bytes of the line the window leaves out.
	CutBefore, CutAfter int
	// Before and After are the lines of context, each cut at MatchLineBytes.
	Before, After []string
}

// GrepResult is the lines that match, sorted by path, then line.
type GrepResult struct {
	Matches []Match
	// Counts is the files that match, sorted by path, in the modes GrepFiles and
	// GrepCount, which have no Matches.
	Counts []FileCount
	// Files is how many files have a match among Matches, or are in Counts.
	Files int
	// Searched is how many files were searched.
	Searched int
	// Truncated says that there are more matches, or files, than the limit, or than fit
	// into GrepBytes.
	Truncated bool
	// Omitted is how many more matching lines there are, counted up to MaxEntries; of
	// GrepContent only.
	Omitted int
	// Incomplete names, by path, files that matched up to a byte that shows that
	// they are binary, and files that are too large to be searched: the first
	// MaxIncomplete of them.
	Incomplete []string
	Skipped    Skipped
}

// FileCount is a file that matches.
type FileCount struct {
	// Path is root-relative and slash-separated.
	Path string
	// Lines is how many of its lines match, in the mode GrepCount, else 0.
	Lines int
}

// FileErrorKind says what is wrong with a path, a query or a change.
type FileErrorKind string

// The kinds of file errors.
const (
	FileNotFound     FileErrorKind = "not_found"
	FileOutside      FileErrorKind = "outside_root"
	FileDenied       FileErrorKind = "os_permission"
	FileIsDirectory  FileErrorKind = "is_directory"
	FileNotDirectory FileErrorKind = "not_directory"
	FileSpecial      FileErrorKind = "special_file"
	FileBinary       FileErrorKind = "binary"
	FileBadPath      FileErrorKind = "bad_path"
	FileBadQuery     FileErrorKind = "bad_query"
	FileStaleHandle  FileErrorKind = "stale_handle"
	FileStale        FileErrorKind = "stale"     // changed since it was read, or since the change was prepared
	FileUnread       FileErrorKind = "unread"    // would be replaced, and the session has not read it
	FileExists       FileErrorKind = "exists"    // and would be replaced
	FileNoMatch      FileErrorKind = "no_match"  // the text to be replaced, or the context of a patch
	FileAmbiguous    FileErrorKind = "ambiguous" // it is there more than once
	FileTooLarge     FileErrorKind = "too_large"
	FileIO           FileErrorKind = "io"
)

// A FileError is an error of the filesystem that a tool may show to its model.
// It survives the process line.
type FileError struct {
	Kind FileErrorKind
	// Path is the path as it was asked for; it may be empty.
	Path string
	// Detail says what is wrong and, where there is something, what to do next.
	Detail string
}

func (e *FileError) Error() string {
	if e.Path == "" {
		return e.Detail
	}
	return fmt.Sprintf("%s: %s", e.Path, e.Detail)
}
