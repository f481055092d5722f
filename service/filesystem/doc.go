// Package filesystem is the engine of a Location's filesystem service, for
// reading: read, list, glob and grep below one root directory. Its values are
// those of package service; it knows nothing of plugins and of how they are
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
// # Order and bounds
//
// Files come in the order of their paths, byte by byte, unless the newest are wanted
// first, however many goroutines search; where a limit cuts an answer follows from that order alone. The bounds
// are constants of package service, except those of a file that is decoded from
// UTF-16 to be read (64 MiB) and up to which the lines behind a page are counted
// (64 MiB).
package filesystem
