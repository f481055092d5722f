package filesystem

import (
	"bytes"
	"encoding/base64"
	"encoding/binary"
	"fmt"
	"hash/crc32"
	stdimage "image"
	"image/color"
	"image/gif"
	"image/jpeg"
	"image/png"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/toolhost/toolhost/plugin/sdk"
	"github.com/toolhost/toolhost/tool"
)

// tinyWebP is an image of one pixel, since nothing here makes one.
const tinyWebP = "UklGRhoAAABXRUJQVlA4TA0AAAAvAAAAEAcQERGIiP4HAA=="

// pictures are valid images by type.
func pictures(t testing.TB) map[string][]byte {
	t.Helper()
	picture := stdimage.NewPaletted(stdimage.Rect(0, 0, 30, 20), color.Palette{color.Black, color.White})
	var asPNG, asJPEG, asGIF bytes.Buffer
	for _, err := range []error{png.Encode(&asPNG, picture), jpeg.Encode(&asJPEG, picture, nil), gif.Encode(&asGIF, picture, nil)} {
		if err != nil {
			t.Fatal(err)
		}
	}
	webp, err := base64.StdEncoding.DecodeString(tinyWebP)
	if err != nil {
		t.Fatal(err)
	}
	return map[string][]byte{"image/png": asPNG.Bytes(), "image/jpeg": asJPEG.Bytes(), "image/gif": asGIF.Bytes(), "image/webp": webp}
}

// A model sees an image as one, through the real engine and the real registry; a
// program is told what is known of it. Seen to fail: without the media on the wire.
func TestReadImage(t *testing.T) {
	files, sizes := map[string]string{}, map[string][2]int{"image/webp": {1, 1}}
	for mediaType, data := range pictures(t) {
		files[strings.ReplaceAll(mediaType, "/", "-")+".dat"] = string(data)
	}
	p := start(t, files)
	for mediaType, data := range pictures(t) {
		name := strings.ReplaceAll(mediaType, "/", "-") + ".dat"
		size, ok := sizes[mediaType]
		if !ok {
			size = [2]int{30, 20}
		}
		o := p.Call("read", fmt.Sprintf(`{"path": %q}`, name))
		want := []tool.Content{
			tool.Image(data, mediaType),
			tool.Text(fmt.Sprintf("[%s, %d x %d pixels, %d bytes]", mediaType, size[0], size[1], len(data))),
		}
		if diff := cmp.Diff(want, o.Content); diff != "" {
			t.Error(diff)
		}
		structured := fmt.Sprintf(`{"path":%q,"text":"","first_line":0,"lines":0,"total_lines":0,"size":%d,"encoding":"","image":{"type":%q,"width":%d,"height":%d}}`,
			name, len(data), mediaType, size[0], size[1])
		if diff := cmp.Diff(structured, string(o.Structured)); diff != "" {
			t.Error(diff)
		}
		for _, lines := range []string{`"offset": 2`, `"offset": -1`, `"limit": 5`} {
			o := p.Call("read", fmt.Sprintf(`{"path": %q, %s}`, name, lines))
			if want := name + ": is an image (" + mediaType + ") and has no lines: read it without offset and limit"; o.Status != "failed" || o.Error.Message != want {
				t.Errorf("%s: got %s, want failed: %s", lines, o, want)
			}
		}
	}
}

// An image as large as one may be crosses all lines; a larger one, and one that is no
// image, are refused in words.
func TestReadImageLimits(t *testing.T) {
	whole := pictures(t)["image/png"]
	largest := string(whole) + strings.Repeat("\x00", 5<<20-len(whole))
	huge := append([]byte(nil), whole...)
	copy(huge[16:], "\x00\x02\x00\x00\x00\x00\x00\x01")
	binary.BigEndian.PutUint32(huge[29:], crc32.ChecksumIEEE(huge[12:29]))
	p := start(t, map[string]string{
		"largest": largest, "larger": largest + "\x00", "damaged": string(whole[:20]), "huge": string(huge), "svg.svg": "<svg/>\n",
		"zip": "PK\x03\x04\x00\x00",
	})
	if o := p.Call("read", `{"path": "largest"}`); len(o.Content) != 2 || string(o.Content[0].Data) != largest {
		t.Errorf("got %.200s, want all of it", o)
	}
	checkTexts(t, call(t, p, "read", `{"path": "svg.svg"}`).Content, "<svg/>\n")
	for path, want := range map[string]string{
		"larger":  "larger: is an image (image/png) of 5242881 bytes, and at most 5242880 are given; make a smaller copy of it",
		"damaged": "damaged: begins as image/png, and cannot be shown: ",
		"huge":    "huge: begins as image/png, and cannot be shown: it claims to have 131072 x 1 pixels",
		"zip":     "zip: is a binary file (application/zip) of 6 bytes, and only text and images (PNG, JPEG, GIF, WebP) can be read",
	} {
		if o := p.Call("read", fmt.Sprintf(`{"path": %q}`, path)); o.Status != "failed" || !strings.HasPrefix(o.Error.Message, want) {
			t.Errorf("got %s, want failed: %s", o, want)
		}
	}
}

// What claims more pixels than anything could show is refused, and nothing panics.
func FuzzDecodeConfig(f *testing.F) {
	for mediaType, data := range pictures(f) {
		f.Add(mediaType, data)
	}
	f.Fuzz(func(t *testing.T, mediaType string, data []byte) {
		size, err := decodeConfig(&sdk.Media{Type: mediaType, Data: data})
		if err == nil && (size.Width <= 0 || size.Height <= 0 || size.Width > maxSide || size.Height > maxSide) {
			t.Errorf("%d x %d", size.Width, size.Height)
		}
	})
}
