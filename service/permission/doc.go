// Package permission judges what a call may do (laws 31 to 33, 38, 39).
//
// A [Policy] is the ordered rules of each config file and the [Defaults]. It is
// evaluated in one way, everywhere:
//
//  1. Each file is evaluated by itself: of its rules that match, the last one
//     wins. A file without a match abstains.
//  2. Across files the strictest answer holds: deny over ask over allow. So a
//     project can never undo what the user denies.
//  3. When every file abstains, the defaults speak, by the same rule.
//  4. When they abstain as well, the answer is ask.
//
// Actions and resources of rules are patterns in one small language, see
// [Pattern]. The action of a request is an action of the built-ins ([Actions])
// or the canonical id of a tool, plugin/authored; the names that a model sees
// never take part (case C23).
//
// A command line is judged whole: each simple command in it and each file that
// it writes by itself, and the strictest answer holds, see
// [Policy.EvaluateCommand]. No command is allowed for its name (case C22).
//
// An [Engine] applies a policy to calls. It makes one gate per call, which
// answers what the call's tool asserts and what the services ask on their own,
// and has an [Approver] for the questions that no rule settles. With [Nobody]
// to ask, the answer is no. With a [Queue] people answer when they come to it.
//
// Before anybody is asked the engine looks at what was approved for good, see
// [Approvals]: an approval holds the patterns that were shown, for one root,
// plugin and action (law 34), and turns an ask into an allow, never a deny.
//
// An [Explanation] is a verdict with every rule that was looked at for it. The code
// that judges takes it down, so that what is explained is what is answered.
package permission
