// Package command reads command lines for whoever judges them (law 38). It is
// the one place in which a line is taken apart, whatever tool runs it.
//
// [Read] yields every simple command of a line by itself, wherever it stands: in
// lists and pipes, in subshells, groups, functions, conditionals and loops, in
// substitutions and here-documents, as the argument of eval, of a shell's -c, of
// xargs, find, env, sudo and others that run their arguments; and every file that
// a redirection writes. It decides nothing. In particular it knows no command
// that is harmless: nothing is allowed for its name (case C22), and a program
// whose options can start another one is said to be doubtful with them.
//
// A line is read as bash and, where that could differ, as a POSIX shell; what
// either of them would run is yielded. What cannot be told before the line runs,
// such as a command's name that is an expansion, carries a doubt in words, and
// so does the whole line when it cannot be parsed, is too long or too deep. A
// doubt means that a person has to look, never that something is let through.
//
// Reading is static. What a program does by itself is not seen: the hooks and
// aliases in git's configuration, the recipes of a Makefile, a script in a file.
package command
