// Package control is the local control socket of a running host: how the user's
// other programs see what it does and answer what it asks.
//
// A program that embeds a host calls [Listen]; a command that somebody types finds
// every such program with [Hosts] and speaks to each through a [Client]. Several
// hosts run at the same time, each with a socket of its own in the one directory of
// the user, [DefaultDir].
//
// # Who gets in
//
// Whoever can answer a request for permission can do all that the host can, so the
// socket is for the user who runs it and for nobody else, root included. Three
// things say so, each enough by itself: the directory belongs to the user and has
// mode 0700 (a link, another owner or wider rights are errors); the socket has mode
// 0600; and the system is asked for the user at the other end of every connection,
// before a byte of it is read. What the host itself started, a plugin say, is not let in
// either: nobody answers their own questions. The client asks the same about the host, so that
// nobody can pose as one. Who answered a request is what the system says, never
// what was sent.
//
// # What is said
//
// HTTP/1.1 with bodies in JSON, so that any language, and curl, can take part:
//
//	GET  /v1/status           a [Status]; with ?tree also what the host owns
//	POST /v1/reload           empty lines while it is done, and then a [Reload]
//	GET  /v1/logs             ?plugin=&location=&lines= is answered with a [Log]
//	GET  /v1/logs/follow      lines, each a [Log]: at once, and whenever more was written; empty
//	                          ones now and then, and one that has ended at last
//	GET  /v1/approvals        a [List]
//	GET  /v1/approvals/watch  lines, each a [List]: at once, and after each change; an empty
//	                          line now and then says that the host is alive
//	POST /v1/approvals/{id}   {"answer": "once"|"always"|"reject", "feedback": "", "expires": "24h"}
//	                          is answered with {"released": [ids]}
//	POST /v1/sessions/reject  {"session": "", "feedback": ""} is answered with {"rejected": n}
//
// An error has a status of 400 or more and the body {"code": "", "message": ""}, see
// [Error]; the client makes of it an error that is the queue's own to errors.Is.
//
// # What it costs
//
// At most 64 connections are served at a time, the others wait in the system's
// queue; at most 16 of them watch or follow, and four reloads
// run or wait. A header has at most 16 KiB and a body 64, which
// come within ten seconds; the answer is taken within twenty, and each line of a
// watch within ten. A list weighs about 1 MiB at most and says how many requests
// are not in it, and a text of a request that is too long is cut, and said to be.
// The queue never waits for who watches it, nor a plugin for who follows its log: what is
// not kept any more when it is read is counted. A tree has 5,000 names at most.
//
// # What a killed host leaves
//
// Its socket, at which connections are refused. It is removed when another host
// starts and when hosts are listed. A socket gets the name that listers look for
// once it listens, so one that refuses is never a host that is about to start; and
// a host that is merely too busy refuses nothing.
package control
