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
// The services of the Location ([FileSystem], [Permission]) are there when the
// configuration grants them. They are used with the context of the handler, which
// says to the host which call they belong to.
//
// Package sdktest runs a plugin inside a test.
package sdk
