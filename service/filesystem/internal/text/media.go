package text

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/toolhost/toolhost/service"
)

// A signature is how files of a type begin. A dot stands for any byte.
type signature struct{ begins, mediaType string }

// signatures are those of images, which are given, and of what else is met often
// enough to be called by its name.
func signatures() []signature {
	return []signature{
		{"\x89PNG\r\n\x1a\n", "image/png"},
		{"\xff\xd8\xff", "image/jpeg"},
		{"GIF87a", "image/gif"},
		{"GIF89a", "image/gif"},
		{"RIFF....WEBP", "image/webp"},
		{"BM", "image/bmp"},
		{"II*\x00", "image/tiff"},
		{"MM\x00*", "image/tiff"},
		{"\x00\x00\x01\x00", "image/x-icon"},
		{"%PDF-", "application/pdf"},
		{"PK\x03\x04", "application/zip"},
		{"PK\x05\x06", "application/zip"},
		{"\x1f\x8b", "application/gzip"},
		{"BZh", "application/x-bzip2"},
		{"\xfd7zXZ\x00", "application/x-xz"},
		{"\x28\xb5\x2f\xfd", "application/zstd"},
		{"7z\xbc\xaf\x27\x1c", "application/x-7z-compressed"},
		{"\x7fELF", "application/x-elf"},
		{"MZ", "application/x-msdownload"},
		{"\xcf\xfa\xed\xfe", "application/x-mach-binary"},
		{"\x00asm", "application/wasm"},
		{"SQLite format 3\x00", "application/vnd.sqlite3"},
		{"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1", "application/x-ole-storage"},
		{"OggS", "application/ogg"},
		{"ID3", "audio/mpeg"},
		{"fLaC", "audio/flac"},
		{"RIFF....WAVE", "audio/wav"},
		{"\x1aE\xdf\xa3", "video/x-matroska"},
		{"....ftyp", "video/mp4"},
		{"wOFF", "font/woff"},
		{"wOF2", "font/woff2"},
	}
}

// MediaType names the type of a file that is no text by how it begins, or is "".
func MediaType(head []byte) string {
	for _, s := range signatures() {
		if len(head) >= len(s.begins) && beginsWith(head, s.begins) {
			return s.mediaType
		}
	}
	return ""
}

func beginsWith(head []byte, begins string) bool {
	for i := range len(begins) {
		if begins[i] != '.' && begins[i] != head[i] {
			return false
		}
	}
	return true
}

// isImage says that an image of the type is given. What a model can look at is these.
func isImage(mediaType string) bool {
	return slices.Contains([]string{"image/png", "image/jpeg", "image/gif", "image/webp"}, mediaType)
}

// mediaOf is the type of what is not to be shown as text; "" for text. A text may
// begin as an image does, but no image is valid UTF-8.
func mediaOf(head []byte, nature Nature) string {
	switch {
	case nature.Binary:
		if mediaType := MediaType(head); mediaType != "" {
			return mediaType
		}
		return unknownMedia
	case nature.Encoding == Unknown8Bit:
		if mediaType := MediaType(head); isImage(mediaType) {
			return mediaType
		}
	}
	return ""
}

const unknownMedia = "application/octet-stream"

// readMedia gives an image as it is.
func readMedia(ctx context.Context, file io.ReaderAt, size int64, mediaType string, query service.ReadQuery) (service.Page, error) {
	switch {
	case !isImage(mediaType):
		return service.Page{}, errBinary(size, mediaType)
	case query != service.ReadQuery{}:
		return service.Page{}, badQuery("is an image (%s) and has no lines: read it without offset and limit", mediaType)
	case size > service.MaxImage:
		return service.Page{}, &service.FileError{
			Kind:   service.FileTooLarge,
			Detail: fmt.Sprintf("is an image (%s) of %d bytes, and at most %d are given; make a smaller copy of it", mediaType, size, service.MaxImage),
		}
	case ctx.Err() != nil:
		return service.Page{}, context.Cause(ctx)
	}
	data := make([]byte, size)
	n, err := file.ReadAt(data, 0)
	if errors.Is(err, io.EOF) && int64(n) < size {
		return service.Page{}, errShorter()
	}
	if err != nil && !errors.Is(err, io.EOF) {
		return service.Page{}, err
	}
	return service.Page{Size: size, Media: &service.Media{Type: mediaType, Data: data}}, nil
}

func errBinary(size int64, mediaType string) error {
	of := ""
	if mediaType != unknownMedia {
		of = " (" + mediaType + ")"
	}
	return &service.FileError{
		Kind:   service.FileBinary,
		Detail: fmt.Sprintf("is a binary file%s of %d bytes, and only text and images (PNG, JPEG, GIF, WebP) can be read", of, size),
	}
}
