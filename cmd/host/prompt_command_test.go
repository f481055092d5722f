package main

import (
	"regexp"
	"testing"

	"github.com/toolhost/toolhost/service"
	"github.com/toolhost/toolhost/service/permission"
	"github.com/toolhost/toolhost/tool"
)

const askedCommand = `
toolhost asks for approval (ID, until TIME):
  tool     process/shell
  project  /home/ann/shop
  agent    main
  session  s1
  action   shell
  on       git status && rm -rf build > out.txt
  in       web
  judged   allow  git status  (by toolhost.yaml:1)
           ask    rm -rf build  (no rule speaks of it)
           ask    > web/out.txt  (edit: no rule speaks of it)
  effects  process
  because  no rule speaks of it: "rm -rf build"
  always   "cd -- 'web' && {\ngit status && rm -rf build > out.txt\n}"  (that is exactly this command line, in web)
[y]es once, [a]lways for exactly that, [n]o (n REASON tells the model why): `

// A person who is asked about a command line sees it, where it runs, and what each part
// of it was judged to be; the pattern that is saved is the one that is shown, for that line
// there (laws 34, 38).
//
// Seen to fail: with the directory left out of the pattern.
func TestLaw34PromptOfACommand(t *testing.T) {
	allowed, err := permission.ParsePattern("git *")
	if err != nil {
		t.Fatal(err)
	}
	shell, err := permission.ParsePattern(service.ActionShell)
	if err != nil {
		t.Fatal(err)
	}
	policy := &permission.Policy{Root: "/home/ann/shop", Lists: []permission.List{{
		Rules: []permission.Rule{{Action: shell, Resource: allowed, Effect: permission.Allow, Source: "toolhost.yaml:1"}},
	}}}
	saved := new(permission.Memory)
	queue := permission.NewQueue(permission.QueueOptions{Approvals: saved})
	changes, stop := queue.Watch()
	defer stop()
	gate := permission.New(policy, queue).WithApprovals(saved).Gate(permission.Caller{
		Identity: tool.Identity{Session: "s1", Agent: "main", Message: "m", Call: "c"}, Tool: "process/shell", Plugin: "process",
		Builtin: true, Root: policy.Root, Effects: tool.Process,
	})
	outcome := make(chan error, 1)
	go func() {
		outcome <- gate.Assert(t.Context(), tool.PermissionRequest{
			Action: service.ActionShell, Resources: []string{"git status && rm -rf build > out.txt"},
			Metadata: map[string]string{service.MetadataDirectory: "web"},
		})
	}()
	<-changes
	pending := queue.Pending()[0]
	got := regexp.MustCompile(`\([A-Z2-7]{12}, until [0-9:]{8}\)`).ReplaceAllString(question(pending, 0), "(ID, until TIME)")
	if got != askedCommand {
		t.Errorf("the question is\n%s\nwant\n%s", got, askedCommand)
	}
	if _, err := queue.Reply(t.Context(), pending.ID, permission.Answer{Kind: permission.Always}); err != nil {
		t.Fatal(err)
	}
	if err := <-outcome; err != nil {
		t.Error(err)
	}
	all := saved.All()
	if len(all) != 1 || len(all[0].Patterns) != 1 || all[0].Patterns[0] != permission.SavePattern("git status && rm -rf build > out.txt", "web") {
		t.Errorf("saved are %+v", all)
	}
}
