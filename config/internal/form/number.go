package form

import (
	"fmt"
	"math/big"
	"regexp"
	"strconv"
	"strings"

	"github.com/toolhost/toolhost/config/internal/document"
)

// sizePattern is how a size with a unit is spelled.
const sizePattern = `^[0-9]{1,18} ?(B|kB|KB|MB|GB|TB|KiB|MiB|GiB|TiB)$`

// Number is the value of a node that an Integer or a Size describes.
func (f *Form) Number(n *document.Node) (int64, error) {
	var value *big.Int
	var ok bool
	if n.Kind == document.Text {
		if value, ok = size(n.Text); !ok {
			return 0, fmt.Errorf("a size is a number of bytes, or a text such as 500MB or 2GiB")
		}
	} else {
		value, ok = whole(n.Text)
	}
	if !ok || value.Cmp(big.NewInt(f.Min)) < 0 || value.Cmp(big.NewInt(f.Max)) > 0 {
		return 0, fmt.Errorf("it must be a whole number between %d and %d", f.Min, f.Max)
	}
	return value.Int64(), nil
}

// Decimal is the value of a node that a Decimal describes.
func (f *Form) Decimal(n *document.Node) (float64, error) {
	value, ok := rational(n.Text)
	if !ok || value.Cmp(bound(f.Least)) < 0 || value.Cmp(bound(f.Utmost)) > 0 {
		return 0, fmt.Errorf("it must be a number between %v and %v", f.Least, f.Utmost)
	}
	nearest, _ := value.Float64()
	return nearest, nil
}

// bound is a bound as it is written in the schema, and not the nearest binary fraction.
func bound(of float64) *big.Rat {
	value, ok := new(big.Rat).SetString(strconv.FormatFloat(of, 'g', -1, 64))
	if !ok {
		panic(fmt.Sprintf("the bound %v is no number", of)) // a mistake in the form
	}
	return value
}

// whole is the value of a JSON number, if it is whole.
func whole(text string) (*big.Int, bool) {
	value, ok := rational(text)
	if !ok || !value.IsInt() {
		return nil, false
	}
	return value.Num(), true
}

// rational is the value of a JSON number. One with many digits or a large exponent is
// not worked out: it is out of any bounds, or more exact than anybody means it.
func rational(text string) (*big.Rat, bool) {
	mantissa, exponent, _ := strings.Cut(strings.ToLower(text), "e")
	if power, err := strconv.Atoi(exponent); exponent != "" && (err != nil || power > 30 || power < -30) || len(mantissa) > 60 {
		return nil, false
	}
	return new(big.Rat).SetString(text)
}

// size is the number of bytes of a size with a unit.
func size(text string) (*big.Int, bool) {
	if !regexp.MustCompile(sizePattern).MatchString(text) {
		return nil, false
	}
	digits := strings.TrimRight(text, " BkKMGTi")
	value, ok := new(big.Int).SetString(digits, 10)
	unit := strings.TrimSpace(text[len(digits):])
	base := int64(1000)
	if strings.HasSuffix(unit, "iB") {
		base = 1024
	}
	for range strings.IndexByte("BKMGT", strings.ToUpper(unit)[0]) {
		value.Mul(value, big.NewInt(base))
	}
	return value, ok
}
