package filesystem

import (
	"fmt"
	"math"
	"math/big"
)

// integer is a whole number of an input. What a schema calls an integer may be
// written 5, 5.0 and 5e0, and may have any size; encoding/json reads only the
// first as an int, and only while it fits. A number that does not fit becomes
// the nearest that does, and is then outside of every range.
type integer int

// UnmarshalJSON reads a number that is whole.
func (n *integer) UnmarshalJSON(data []byte) error {
	number, ok := new(big.Rat).SetString(string(data))
	if !ok || !number.IsInt() {
		return fmt.Errorf("%s is not a whole number", data)
	}
	switch whole := number.Num(); {
	case whole.IsInt64() && whole.Int64() != math.MinInt64:
		*n = integer(whole.Int64())
	default:
		*n = integer(whole.Sign() * math.MaxInt64)
	}
	return nil
}
