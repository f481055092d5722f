// Package output bounds what a model sees of a call and keeps the whole in
// managed storage (laws 17 to 20).
//
// A [Keeper] holds the limits of one Location. For each call it begins a
// [Bounding], which takes the text that the call streams and, in the end, the
// settlement; what is over the limits is replaced by a preview of its head and
// tail, and the whole goes to the [Store] before anybody sees the preview.
// What cannot be kept is not cut: the call ends operationally (law 18).
//
// # What is measured
//
// With content, only its text is: the streamed text first, then all blocks of
// text and the text of embedded resources, joined by a line end where one does not end
// with one. Over the limits, or where it had to be cleaned, all of it becomes one block
// at the place of the first text, and a link is left of each resource that had text: a
// resource is given whole or not at all. Media and links keep their order and pass unchanged, under the
// ceilings [MaxMedia], [MaxLinks] and [MaxBlocks]; of more blocks than that those of
// text are first merged into one, without loss. The structured value beside content
// is kept as it is, under [MaxStructured].
//
// Without content and without streamed text the structured value is measured, as
// the bytes of its JSON. Over the limits it becomes absent, and a preview of the
// JSON is the content. So a client that checks the schema of a tool's output meets
// a value that is whole or none. The same holds of a value that is a string where
// the content is no more than that string: it is cut as text, and over the limits the
// value is absent.
//
// A failure's message is text like any other. What a call had streamed before it
// failed stands before the message.
//
// # What is shown
//
// Text that fits and has no control characters but line ends (CRLF too) and tabs is
// passed on as it is, byte for byte. Any other is shown as a terminal would leave
// it, without the terminal's control:
//
//   - a carriage return goes back to the beginning of the line, and what follows
//     overwrites: "abc\rX" shows "Xbc". CRLF is a line end. Erasing within a line is
//     followed as far as redrawing needs it;
//   - escape sequences are left out: CSI, OSC, DCS, SOS, PM, APC and those of two
//     bytes. Each ends with its line at the latest, so that an unfinished one hides
//     nothing else;
//   - other control characters, C1 among them, are left out;
//   - bytes that are not UTF-8 are replaced by U+FFFD, each. Cutting never makes one.
//
// If that changed anything the raw text is kept, and the settlement names it.
// Overwriting is followed in lines of up to 4 KiB; in a longer one a carriage return
// is a line end.
//
// # The store
//
// Whole outputs are files of zstd frames, each of 1 MiB of the output, and a last
// frame that readers skip with the frames' sizes and the description: any range is
// read without decompressing the rest, and zstd -d reads the file. A file is
// written under a temporary name that its writer keeps locked, and renamed when it is
// complete; it is not flushed to the disk. Hosts may share the directory.
package output
