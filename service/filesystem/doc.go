// Package filesystem is the engine of a Location's filesystem service: read, list,
// glob and grep below one root directory, and changes of what is there. Its values
// are those of package service; it knows nothing of plugins and of how they are
// reached.
//
// # What is below the root
//
// [Open] holds the root directory open. [FileSystem.ResolveRoot] opens a file or
// directory below it, and everything is done relative to that handle. A path is
// cleaned by its words alone, so "a/.." is the root whatever "a" is. Links are
// followed while resolving, as long as they stay below the root; then the path
// without links is opened, and the kernel is asked to follow none and to stay
// below. So RootInfo.Resolved is not looked up after the fact: it is the path that
// was opened. Searching and listing follow no links.
//
// A file with two names that are not links but equals (hard links) is judged by
// the name that was used: nothing in a filesystem says what the other one is. A
// directory that is mounted at two places is judged by the place that was used.
//
// # What is left out
//
// Glob and grep leave out, in this order:
//
//   - .git, .hg, .svn and .jj, unless the handle lies within one, whatever an
//     ignore file says (case A30);
//   - what ignore files leave out: .ignore, then .gitignore, then
//     .git/info/exclude, then the user's own file ([Options.Excludes]); for each
//     the nearest that says something, from the directory itself up to the root.
//     Git's files do not hold across the top of a repository, and hold outside of
//     one too. A root that lies within a repository is under the rules from that
//     repository's top on, which are read once, when it is opened; otherwise what is
//     above a root is not looked at. The user's file counts as if it stood in the
//     top of the repository, or outside of one in the root. Where .git is a file,
//     of a worktree or a submodule, info/exclude is that of where git keeps it, if
//     that is below the root;
//   - names that begin with a dot, unless an ignore file takes them in with "!",
//     or a part of the pattern that begins with a dot names them (".github/**");
//   - links, devices, pipes and sockets;
//   - what the gate does not allow to be read (law 39).
//
// All but the first are counted in [service.Skipped]. What is named as the handle
// is searched, though it is hidden or ignored itself. List leaves out what the
// gate does not allow to be listed, and nothing else; it does not enter ignored
// directories and those of version control.
//
// Grep searches text: UTF-8, UTF-16 with a byte order mark, which is decoded, and
// whatever else has a byte for a line feed and no zero byte. In a file that is not
// UTF-8 throughout, a pattern that speaks of characters beyond ASCII finds them as
// UTF-8 and as Latin-1 ("é" is C3 A9 and E9); a byte that is no UTF-8 is shown as
// U+FFFD, as by Read. Columns are in bytes of the file, of UTF-16 in those of its UTF-8. A file with a zero byte in its first
// 8 KiB is binary; one with a zero byte further on is searched as far as that,
// and named in GrepResult.Incomplete if something was found.
//
// An ignore file over 1 MiB is not used, nor is one with which the patterns that
// hold in a directory, its own and those from above, would have more than
// 64 KiB from their first wildcard on; it is as if it were not
// there, and counts as unreadable in [service.Skipped]. So does a directory with more
// than half a million names, which is not read. The pattern of grep may
// make 10,000 instructions; one that makes more is refused.
//
// # What is read
//
// Read gives text by the page, and a PNG, JPEG, GIF or WebP image as a whole. What is
// text it tells as grep does, by the first 8 KiB. A file that says that it has no bytes is
// read to find out, up to 16 MiB. A name that is not there is answered with those beside it
// that could have been meant: the same but for spaces, accents and case, or else with
// another extension, a plural, or a few letters. Nothing is looked for elsewhere.
//
// What a session read of a file is evidence for it (law 28); see [Evidence].
//
// # How it is searched
//
// Most patterns have a literal that every match has: it is looked for first. Of
// others, and of lines with the literal, an automaton over bytes passes over what
// cannot match (package internal/search); the regular expression sees what is left.
// A file is read with one system call, or a few, up to the size that it has then.
//
// A search for lines counts on behind its limit, up to [service.MaxEntries] lines, so
// that the answer says how many there are; one for files ends with the first file
// over its limit, and so does a glob that is sorted by path.
//
// # Types
//
// Grep's Type is one of: asm, bazel, c, clojure (clj), cmake, config (conf), cpp (c++,
// cc), csharp (cs), css, csv, cuda, dart, docker (dockerfile), elixir (ex), erlang
// (erl), fsharp, go (golang), gomod, graphql, groovy (gradle), haskell (hs), html,
// java, js (javascript), json, julia (jl), kotlin (kt), lisp, log, lua, make, markdown
// (md), matlab, nix, notebook (jupyter), objc, ocaml (ml), perl, php, powershell (ps1),
// protobuf (proto), python (py), r, ruby (rb), rust (rs), scala, shell (sh, bash), sql,
// svelte, swift, terraform (tf), tex (latex), toml, ts (typescript), txt (text), vim,
// vue, xml, yaml (yml), zig. A type is told by the name alone; what a type stands for is
// a table in internal/glob.
//
// # Patterns
//
// This is what the patterns of glob, and of grep's Include, match (case A31).
//
//	pattern           matches                         does not match
//	*                 a, x/a, x/y/a
//	**                a, x/a, x/y/a
//	**/*              a, x/a, x/y/a
//	*.go              a.go, x/a.go, x/y/a.go          a.goo, a.go/b
//	*.{go,c}          a.go, x/a.c                     a.h
//	f                 f, x/f                          f/x
//	**/f              f, x/f, x/y/f
//	./f               f, x/f                          f/x
//	a?c               abc, x/a-c                      ac, a/c
//	src/*.go          src/a.go                        src/x/a.go, x/src/a.go
//	src/**/*.go       src/a.go, src/x/y/a.go
//	src/**            src/a, src/x/a                  src, x/src/a
//	**/src/**         src/a, x/src/y/a                src, x/src
//	{src/**,z}        src/a, z                        src, x/z
//	{**/*b,z}         b, x/ab, z                      x/z
//	abc**             abc, abcd, x/abc                abcd/x
//	src/**.go         src/a.go                        src/x/a.go
//	a/**/b            a/b, a/x/b, a/x/y/b
//	[!a]*             b, x/b                          a
//	\{x\}             {x}                             x
//
// A pattern without a slash is matched against the last part of a path, any other
// against the whole path below the handle. "**" between slashes stands for any
// number of directories, none included, and at the end for everything below; stuck
// to something else it is "*". "*" and "?" do not match a slash. Only files are
// found. Case counts. Every row is a test.
//
// # Changes
//
// A change has two steps. [FileSystem.Stage] finds what its paths lead to, reads what is
// there, and works out every byte that will be; it changes nothing (law 25). Whoever
// decides sees what it says ([Stage.Staged]). [Stage.Commit] makes that change, or none:
//
//   - links are followed when a change is staged, as far as they stay below the root, and
//     never again: the directory is opened by its path without links, and must be the one
//     that it was; the file must hold the bytes that it held (law 27);
//   - a link that leads to nothing is refused (case A04); a link is moved and removed itself;
//   - a whole file is replaced if the session read it as it is now, or wrote it; what it
//     read and was changed since is not removed either. The text that an edit replaces, and
//     the lines of a patch, are evidence themselves (law 28);
//   - a file keeps its mode, but for the bits by which it runs as somebody else, its owner
//     and its attributes; where the system does not let it, nothing is done. Its other names,
//     as hard links, keep the old content, which is said;
//   - content that is written over a file with a byte order mark gets the mark, and is UTF-16
//     if the file is: read shows neither, so whoever writes cannot give it back (case A11);
//   - changes of one file are made one after the other, as far as nobody is asked in between.
//
// What the gate denies to edit is refused before it is looked at. What depends on the
// content of a file - an edit, a patch, whether a write changes anything - is refused to
// whom may not read it, unless the session did so because somebody allowed it; and so is a
// move to a name under which reading is freer (law 39). The files of one change must not be
// in each other's way.
//
// What the death of the process leaves of a change that is being made, the next one
// removes or puts back ([FileSystem.Recover]), so that each file is whole.
//
// A file of up to 64 MiB can be changed. Package commit says how it is done, and what
// remains of a gap; packages edit, patch and diff say what becomes of the bytes.
//
// # Order and bounds
//
// Files come in the order of their paths, byte by byte, unless the newest are wanted
// first, however many goroutines search; where a limit cuts an answer follows from that order alone. The bounds
// are constants of package service, except those of a file that is decoded from
// UTF-16 to be read (64 MiB) and up to which the lines behind a page, or before one
// that is read from the end, are counted (64 MiB).
package filesystem
