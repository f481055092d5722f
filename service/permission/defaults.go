package permission

import "github.com/toolhost/toolhost/service"

// Defaults is what holds where no file says anything:
//
//   - reading, listing and searching below the root is allowed;
//   - reading a file that usually holds secrets, anywhere below the root, is asked for;
//   - of those, the examples and the public keys are allowed after all;
//   - everything else is asked for, since no rule speaks of it.
//
// Searching leaves out what reading does not allow (law 39).
func Defaults() List {
	var rules []Rule
	add := func(action, resource string, effect Effect, reason string) {
		rules = append(rules, Rule{
			Action: mustParse(action), Resource: mustParse(resource), Effect: effect, Reason: reason, Source: "default",
		})
	}
	for _, action := range []string{service.ActionRead, service.ActionList, service.ActionGlob, service.ActionGrep} {
		add(action, "*", Allow, "")
	}
	anywhere := func(name string, effect Effect, reason string) {
		add(service.ActionRead, name, effect, reason)
		if name[0] != '*' { // which crosses slashes by itself
			add(service.ActionRead, "*/"+name, effect, reason)
		}
	}
	for _, name := range secretNames() {
		anywhere(name, Ask, "may hold secrets")
	}
	for _, name := range harmlessNames() {
		anywhere(name, Allow, "")
	}
	return List{Rules: rules}
}

// secretNames are the names of files that usually hold secrets.
func secretNames() []string {
	return []string{
		".env", ".env.*", ".envrc",
		"*.pem", "*.key", "*.p12", "*.pfx", "*.jks", "*.keystore", "*.kdbx",
		"id_rsa*", "id_dsa*", "id_ecdsa*", "id_ed25519*", ".ssh/*",
		".netrc", "_netrc", ".npmrc", ".pypirc", ".pgpass", ".htpasswd", ".git-credentials",
		".aws/credentials", ".docker/config.json", ".kube/config", ".gnupg/*",
	}
}

// harmlessNames are those of the secret names that hold none.
func harmlessNames() []string {
	return []string{
		".env.example", ".env.sample", ".env.template", ".env.dist",
		"id_rsa.pub", "id_dsa.pub", "id_ecdsa.pub", "id_ed25519.pub",
	}
}

func mustParse(text string) Pattern {
	p, err := ParsePattern(text)
	if err != nil {
		panic("default pattern " + err.Error())
	}
	return p
}
