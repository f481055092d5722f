package command

// The programs that are known to run what is in their arguments, or known not
// to. Neither allows anything: the former have their arguments judged exactly,
// the latter only spare a question about an argument that is spelled like a
// command. Every other program's arguments are looked through.

// shell reports whether the program reads a language of shells.
func shell(name string) bool {
	switch name {
	case "sh", "bash", "dash", "ash", "rbash", "zsh", "ksh", "mksh", "ksh93", "yash", "posh", "fish", "csh", "tcsh", "rc", "es",
		"elvish", "nu", "xonsh", "pwsh", "powershell", "cmd", "cmd.exe", "hush", "oil", "osh", "ysh":
		return true
	default:
		return false
	}
}

// A wrapper is a program that runs the command in its arguments.
type wrapper struct {
	// valued and flags are the letters of its options with and without a value.
	valued, flags string
	// valuedLong and flagsLong are its long options, separated by spaces.
	valuedLong, flagsLong string
	// before is how many words stand between the options and the command.
	before int
	// assigns says that assignments stand there too.
	assigns bool
	// shells says that it starts a shell when there is no command.
	shells bool
	// doubt is what is doubtful about the command that it runs.
	doubt string
}

// wrapperOf is the wrapper of that name.
func wrapperOf(name string) (wrapper, bool) {
	switch name {
	case "sudo":
		return wrapper{
			valued: "aCcDghpRrTtUu", flags: "AbEHKkNnPSv", assigns: true, shells: true,
			valuedLong: "user group host prompt chdir chroot role type other-user close-from command-timeout",
			flagsLong:  "askpass background preserve-env set-home non-interactive preserve-groups stdin reset-timestamp",
		}, true
	case "doas":
		return wrapper{valued: "aCu", flags: "nL", shells: true}, true
	case "nice":
		return wrapper{valued: "n", flags: "0123456789", valuedLong: "adjustment"}, true
	case "timeout", "gtimeout":
		return wrapper{valued: "ks", flags: "fpv", valuedLong: "kill-after signal", flagsLong: "foreground preserve-status verbose", before: 1}, true
	case "nohup":
		return wrapper{}, true
	case "setsid":
		return wrapper{flags: "cfw", flagsLong: "ctty fork wait"}, true
	case "time", "gtime":
		return wrapper{valued: "fo", flags: "apvqlh", valuedLong: "format output", flagsLong: "append portability verbose quiet"}, true
	case "stdbuf":
		return wrapper{valued: "ioe", valuedLong: "input output error"}, true
	case "ionice":
		return wrapper{valued: "cn", flags: "t", valuedLong: "class classdata", flagsLong: "ignore"}, true
	case "chrt":
		return wrapper{valued: "TPD", flags: "bfirodRv", before: 1}, true
	case "taskset":
		return wrapper{flags: "c", flagsLong: "cpu-list", before: 1}, true
	case "chroot":
		return wrapper{valuedLong: "groups userspec", flagsLong: "skip-chdir", before: 1, shells: true}, true
	case "busybox", "toybox":
		return wrapper{shells: true}, true
	case "builtin":
		return wrapper{}, true
	case "caffeinate":
		return wrapper{valued: "tw", flags: "dimsu"}, true
	case "noglob", "nocorrect":
		return wrapper{}, true
	case "xargs", "gxargs":
		return wrapper{
			valued: "aEIdLnPsJRS", flags: "0rtpxo", doubt: "gets arguments that are only known when it runs",
			valuedLong: "arg-file delimiter max-args max-procs max-chars max-lines replace process-slot-var",
			flagsLong:  "null no-run-if-empty verbose interactive exit open-tty",
		}, true
	default:
		return wrapper{}, false
	}
}

// opaque reports whether the program runs a command in its arguments that is
// told too loosely to be found exactly.
func opaque(name string) bool {
	switch name {
	case "su", "runuser", "pkexec", "gosu", "su-exec", "setpriv", "newgrp", "sg", "script", "flock", "unshare", "nsenter", "strace",
		"ltrace", "valgrind", "gdb", "lldb", "rlwrap", "unbuffer", "expect", "firejail", "bwrap", "proot", "fakeroot", "fakechroot",
		"torsocks", "proxychains", "proxychains4", "systemd-run", "start-stop-daemon", "daemonize", "dbus-run-session", "dbus-launch",
		"xvfb-run", "cgexec", "numactl", "prlimit", "softlimit", "chpst", "setarch", "linux32", "linux64", "perf", "parallel", "sem",
		"entr", "watchexec", "inotifywait", "fd", "fdfind", "at", "batch", "crontab", "tmux", "screen", "nc", "ncat", "socat", "ld.so",
		"env-update", "direnv", "dotenv", "npx", "bunx", "pnpx", "uvx", "rsh", "mosh", "pdsh", "ts", "tsp", "run-parts", "setuidgid",
		"ld-linux.so.2", "ld-linux-x86-64.so.2", "ld-linux-aarch64.so.1", "ld-musl-x86_64.so.1", "ld-musl-aarch64.so.1":
		return true
	default:
		return false
	}
}

// data reports whether the program, called by its bare name, is known to take
// its arguments for data.
func data(name string) bool {
	switch name {
	case "echo", "printf", "cat", "ls", "head", "tail", "wc", "cut", "tr", "grep", "egrep", "fgrep", "diff", "cmp", "stat", "file",
		"which", "cd", "pwd", "true", "false", ":", "mkdir", "touch", "rm", "rmdir", "cp", "mv", "ln", "chmod", "chown", "kill", "basename",
		"dirname", "realpath", "readlink", "sleep", "date", "uname", "whoami", "id", "seq", "tee", "uniq", "sha256sum", "md5sum":
		return true
	default:
		return false
	}
}

// likely reports whether a word that is spelled like this behind an unknown
// program is taken for a command.
func likely(name string) bool {
	switch name {
	case "rm", "rmdir", "unlink", "shred", "dd", "mkfs", "chmod", "chown", "curl", "wget", "sudo", "doas", "env", "xargs", "nohup", "eval",
		"exec", "timeout", "busybox", "python", "python3", "perl", "ruby", "node", "nc", "ssh", "scp", "git":
		return true
	default:
		return shell(name)
	}
}

// A starter is a program that starts another one by some of its options, and is used for
// something else. Its own files, such as a Makefile, are not seen.
type starter struct {
	// long are those options by their names, separated by spaces; they may be cut short
	// unless one dash is enough for them, as for Go's.
	long string
	// short are the letters of those options.
	short string
	// oneDash says that long options are written with one dash, too.
	oneDash bool
	// subcommands are the words that run what stands behind them.
	subcommands string
}

// starterOf is the starter of that name.
func starterOf(name string) (starter, bool) {
	switch name {
	case "go":
		return starter{long: "exec toolexec vettool fixtool", oneDash: true}, true
	case "cargo":
		return starter{long: "config"}, true
	case "gcc", "cc", "g++", "c++", "clang", "clang++":
		return starter{long: "wrapper fplugin specs", oneDash: true}, true
	case "make", "gmake":
		return starter{long: "eval file makefile", short: "fE"}, true
	case "npm", "pnpm", "yarn", "bun":
		return starter{
			long: "script-shell shell call git editor viewer browser node-gyp node-options", short: "c", subcommands: "exec x dlx set",
		}, true
	case "tar", "gtar", "bsdtar":
		return starter{long: "to-command checkpoint-action use-compress-program rsh-command rmt-command info-script new-volume-script", short: "IF"}, true
	case "rsync":
		return starter{long: "rsh rsync-path remote-option", short: "eM"}, true
	case "scp", "sftp":
		return starter{short: "oSFD"}, true
	case "sort", "gsort":
		return starter{long: "compress-program"}, true
	case "split", "gsplit":
		return starter{long: "filter"}, true
	case "install", "ginstall":
		return starter{long: "strip-program"}, true
	case "rg":
		return starter{long: "pre hostname-bin"}, true
	case "ag", "ack", "bat", "batcat":
		return starter{long: "pager"}, true
	case "man":
		return starter{long: "pager html browser config-file", short: "PHC"}, true
	case "vi", "vim", "nvim", "view", "ex", "vimdiff", "gvim":
		return starter{long: "cmd", short: "cSsu"}, true
	case "wget":
		return starter{long: "use-askpass execute config", short: "e"}, true
	case "zip":
		return starter{long: "unzip-command TT", oneDash: true}, true
	case "hg":
		return starter{long: "config"}, true
	case "svn":
		return starter{long: "config-option diff-cmd diff3-cmd editor-cmd"}, true
	default:
		return starter{}, false
	}
}
