package control

import "github.com/toolhost/toolhost/service/permission"

// Show is a request as a person sees it.
func Show(p permission.Pending) Pending { return show(p) }
