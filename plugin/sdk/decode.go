package sdk

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/big"
	"reflect"
)

// decodeInput decodes an input that fits the schema of In. What a schema calls an
// integer may be written 5, 5.0 and 5e0, of which encoding/json reads only the
// first as an int, and it may be too large for one, which the model is told.
func decodeInput[In any](input json.RawMessage, exact bool) (In, error) {
	var in, again In
	err := decode(input, &in, exact)
	if _, ok := errors.AsType[*json.UnmarshalTypeError](err); !ok {
		return in, err
	}
	err = decode(wholeNumbers(input), &again, exact)
	if mismatch, ok := errors.AsType[*json.UnmarshalTypeError](err); ok {
		return again, Failure(fmt.Sprintf("input %s: the %s is not one that fits: give a %s", mismatch.Field, mismatch.Value, mismatch.Type))
	}
	return again, err
}

// decode reads JSON. Where exact is set every digit of a number that goes into an
// interface is kept, which costs half as much again.
func decode(data []byte, v any, exact bool) error {
	if !exact {
		return json.Unmarshal(data, v)
	}
	d := json.NewDecoder(bytes.NewReader(data))
	d.UseNumber()
	if err := d.Decode(v); err != nil {
		return err
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return errors.New("something follows the value")
	}
	return nil
}

// holdsInterface reports whether a number can end up in an interface somewhere in
// a value of the type. What decodes itself decides for itself.
func holdsInterface(t reflect.Type, seen map[reflect.Type]bool) bool {
	if seen[t] {
		return false
	}
	seen[t] = true
	switch t.Kind() {
	case reflect.Interface:
		return true
	case reflect.Pointer, reflect.Slice, reflect.Array, reflect.Map:
		return holdsInterface(t.Elem(), seen)
	case reflect.Struct:
		for field := range t.Fields() {
			if holdsInterface(field.Type, seen) {
				return true
			}
		}
	}
	return false
}

// wholeNumbers writes every number that is whole without point and exponent.
func wholeNumbers(data []byte) []byte {
	out := make([]byte, 0, len(data))
	for i := 0; i < len(data); {
		end := i + 1
		switch c := data[i]; {
		case c == '"':
			for ; end < len(data) && data[end] != '"'; end++ {
				if data[end] == '\\' {
					end++
				}
			}
			end = min(end+1, len(data))
		case c == '-' || c >= '0' && c <= '9':
			for end < len(data) && bytes.IndexByte([]byte("+-.eE0123456789"), data[end]) >= 0 {
				end++
			}
			out = append(out, wholeNumber(data[i:end])...)
			i = end
			continue
		}
		out = append(out, data[i:end]...)
		i = end
	}
	return out
}

// maxExponent keeps a short number from becoming a long one.
const maxExponent = 1000

func wholeNumber(number []byte) []byte {
	if !bytes.ContainsAny(number, ".eE") {
		return number
	}
	if _, exponent, ok := bytes.Cut(bytes.ToLower(number), []byte("e")); ok {
		n, parsed := new(big.Int).SetString(string(bytes.TrimPrefix(exponent, []byte("+"))), 10)
		if !parsed || n.CmpAbs(big.NewInt(maxExponent)) > 0 {
			return number
		}
	}
	exact, ok := new(big.Rat).SetString(string(number))
	if !ok || !exact.IsInt() {
		return number
	}
	return []byte(exact.Num().String())
}
