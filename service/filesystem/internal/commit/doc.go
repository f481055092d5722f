// Package commit makes changes to files below an open directory: all of them, or
// none.
//
// What is changed is what was looked at before (law 27). Each directory is opened by
// its path without following a link, and must be the one that it was; what has a name
// in it must be what the step says. New content is written into a file without a name
// in the same directory, with the mode, the owner and the attributes of the file that
// it takes the place of, and flushed; then it is exchanged with that file, and what
// came out of the exchange is looked at once more before it is removed. A step that
// finds something else is taken back, and so are those before it; nothing is left
// behind.
//
// What remains of a gap, as no system call closes it:
//
//   - A program that holds the replaced file open may still write to it, after it was
//     looked at for the last time. What it writes is lost.
//   - A directory that is moved while something in it is being changed takes the change
//     along. It is looked for under its path afterwards, and the change is taken back if
//     it is not there; for that moment there was a file that was not there before.
//   - From the first step that is seen to the last that is finished names that begin with
//     ".toolhost-" stand beside what is changed: the new content, then the old one, of a
//     removed directory all of it. A host that is killed in that time leaves them there, and
//     of several files some changed and some not. What they are is recorded before they are
//     ([Records]), so that the next host can tell, and removes them or puts them back
//     ([Recover]). After a power failure the record may be missing, and they stay.
//   - A directory is removed name by name in the end. Whether that can be done is asked
//     before (see [beneath.Removable]); if it ends in the middle nevertheless, the rest gets
//     its name back, and what is gone is said.
//   - Where a filesystem cannot exchange two names, nothing is looked at after the
//     change.
package commit
