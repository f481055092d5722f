// Package sdk is everything that the author of a plugin imports.
//
// A plugin is a program whose main calls [Serve] with a [Plugin]. The host
// starts it once for each activation of a Location and calls Activate, which
// registers tools:
//
//	func main() {
//		sdk.Serve(sdk.Plugin{
//			Name: "weather", Version: "1.0.0",
//			Activate: func(ctx context.Context, loc sdk.Location) error {
//				_, err := loc.Tools.Register(ctx, sdk.Tools{
//					"forecast": sdk.New("Forecast for a place", forecast, sdk.Network),
//				})
//				return err
//			},
//		})
//	}
//
//	func forecast(ctx context.Context, call sdk.Call, in Place) (Forecast, error) { … }
//
// The schemas of a typed tool come from the types of its handler; a dynamic tool
// ([Dynamic]) brings its own. Input that does not fit never reaches the handler,
// and output that does not fit never counts.
//
// An error that a handler returns is for the operator; the model is only told
// that the tool is unavailable. What the model should read is made with
// [Failure]. Handlers run concurrently.
//
// # What a call may do
//
// A tool declares the most that its calls may do: [Effect], [Irreversible], the
// permissions that each of them needs ([Requires]), and which properties of its
// input are paths ([Targets]). Where that depends on the arguments, [NewPrepared]
// makes a tool that says it of each call, before anything is done:
//
//	sdk.NewPrepared("Remove a station", prepareRemove, remove, sdk.Write)
//
//	func prepareRemove(ctx context.Context, call sdk.Call, in Station) (sdk.Preparation[string], error) {
//		return sdk.Preparation[string]{
//			Effects:  sdk.Write,
//			Requests: []sdk.PermissionRequest{{Resources: []string{in.Name}}},
//			Review:   "Removes the station " + in.Name,
//			Commit:   func(ctx context.Context, call sdk.Call) (string, error) { … },
//		}, nil
//	}
//
// With a Commit the preparation is an action: it is shown for review, and then runs
// once in place of the handler, or is discarded. Without one the handler runs. The
// host holds a call to what was said: its services refuse what goes beyond the
// effects, and while a call is being prepared, and during Activate, they only read.
//
// # While a call runs
//
// The context of a handler ends when the call does. A handler must heed it: the host
// asks whether cancelled calls have ended, and gives up a plugin whose calls do not.
// [Call.Progress] says how far a call has come, [Call.Output] takes text of any size
// as it is produced, and [Call.Lost] says what had to be dropped.
//
// The services of the Location ([FileSystem], [Permission]) are there when the
// configuration grants them. They are used with the context of the handler, which
// says to the host which call they belong to.
//
// Package sdktest runs a plugin inside a test.
package sdk
