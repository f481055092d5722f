package wire

import (
	"errors"

	pluginv1 "github.com/toolhost/toolhost/plugin/proto/toolhost/plugin/v1"
	"github.com/toolhost/toolhost/service"
	"github.com/toolhost/toolhost/tool"
)

// serviceError splits an error of a service: what the other side may know of it,
// or what stays a broken call.
func serviceError(err error) (*pluginv1.ServiceError, error) {
	var file *service.FileError
	var process *service.ProcessError
	var refusal *tool.Refusal
	switch {
	case err == nil:
		return nil, nil
	case errors.As(err, &file):
		return &pluginv1.ServiceError{Error: &pluginv1.ServiceError_File{File: &pluginv1.FileError{
			Kind: string(file.Kind), Path: text(file.Path), Detail: text(file.Detail),
		}}}, nil
	case errors.As(err, &process):
		return &pluginv1.ServiceError{Error: &pluginv1.ServiceError_Process{Process: &pluginv1.ProcessError{
			Kind: string(process.Kind), Subject: []byte(process.Subject), Detail: text(process.Detail),
		}}}, nil
	case errors.As(err, &refusal):
		return &pluginv1.ServiceError{Error: &pluginv1.ServiceError_Refusal{Refusal: &pluginv1.Refusal{
			Kind: string(refusal.Kind), Action: text(refusal.Action), Resource: text(refusal.Resource), Reason: text(refusal.Reason),
		}}}, nil
	default:
		return nil, err
	}
}

// plainError is the error that serviceError was made of. One of a kind that is not known is
// an error as well.
func plainError(sent *pluginv1.ServiceError) error {
	switch e := sent.GetError().(type) {
	case *pluginv1.ServiceError_File:
		return &service.FileError{
			Kind: service.FileErrorKind(e.File.GetKind()), Path: e.File.GetPath(), Detail: e.File.GetDetail(),
		}
	case *pluginv1.ServiceError_Process:
		return &service.ProcessError{
			Kind: service.ProcessErrorKind(e.Process.GetKind()), Subject: string(e.Process.GetSubject()), Detail: e.Process.GetDetail(),
		}
	case *pluginv1.ServiceError_Refusal:
		return &tool.Refusal{
			Kind: tool.Kind(e.Refusal.GetKind()), Action: e.Refusal.GetAction(), Resource: e.Refusal.GetResource(), Reason: e.Refusal.GetReason(),
		}
	default:
		if sent != nil {
			return errors.New("the host sent an error that this version of the protocol does not have")
		}
		return nil
	}
}
