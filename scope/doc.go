// Package scope owns what is acquired during one lifetime, and gives it all back in one act.
//
// A [Scope] holds three kinds of things in the order in which they were acquired: finalizers ([Scope.Defer]), goroutines
// ([Scope.Go]) and scopes below it ([Scope.Fork]). [Scope.Close] takes them away again, newest first. Scopes form a tree,
// so closing the one at the top ends everything.
//
// # Work and resources
//
// Work (calls, goroutines) hangs on [Scope.Context]; resources (processes, listeners, connections, directories) hang on
// [Scope.Defer]. Close cancels the work first and releases the resources afterwards. A resource that dies with the context
// is therefore a mistake: a process started by exec.CommandContext on the scope's context is killed before any finalizer
// could ask it to stop.
//
// Work that wants its scope to end calls [Scope.Cancel]. Only the owner, who made the scope, calls Close, on a context
// detached from the work.
//
// # Laws
//
//  1. Defer always takes ownership; on a closed scope it runs the finalizer at once and returns [ErrClosed].
//  2. Close cancels the context of the whole subtree before the first finalizer runs.
//  3. Finalizers run newest first; a fork closes at the place where it was forked.
//  4. Every finalizer runs exactly once, though others fail or panic and though ctx is past: ctx bounds how politely, never
//     whether.
//  5. Errors are joined, each with its path of names.
//  6. A second Close, concurrent or later, waits and returns the same result.
//  7. A closed fork and a finished goroutine are forgotten by the scope that held them.
//  8. Goroutines are joined before what they use is released; one that will not stop is reported by name.
//
// # Order
//
// A goroutine has a place in the order like everything else, and that place is what law 8 is about: a goroutine may use
// what was acquired before it was started, and it is joined before any of that is released. What makes it stop, beyond the
// cancelled context, is deferred after it. So a server is four lines, of which the middle two must not be swapped:
//
//	s.Defer("listener", ...) // released last
//	s.Go("serve", ...)       // joined next
//	s.Defer("server", ...)   // stops serve, released first
//
// What a goroutine acquires while it runs stands after it in the order and would be released before it is joined. It
// either releases such things itself before it returns, or gives them to a fork made before the goroutine was started.
//
// # Releasing early
//
// There is no way to take back a single Defer. What may be released before its scope is acquired in a fork, whose Close
// releases exactly that, reports its error to the one who closed it, and leaves nothing behind (law 7).
//
// # Time
//
// The context given to Close says how long the closing may be polite. Each finalizer gets it. When it has ended, finalizers
// that did not run yet are called all the same, with a context that is already cancelled, and are expected to use force.
// From then on each is waited for no longer than [Overtime]. One that is still running is reported by name and abandoned:
// the closing goes on to the next, so a hung finalizer costs the order of release (it may still be using what is released
// after it) and never the release itself. Goroutines are treated alike. Close thus returns at the latest when its context
// has ended, plus Overtime for everything that hangs. A context without a deadline is given [DefaultGrace].
//
// Forks close one after another, each at its place. An owner who wants them to close at the same time closes them itself,
// at the same time, before the scope that holds them.
package scope
