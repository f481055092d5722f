package sandbox

func (p Policy) Resolve([]string, string) (Policy, error) { return p, nil }
