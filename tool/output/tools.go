package output

import "github.com/toolhost/toolhost/tool"

func (k *Keeper) readTool() tool.Tool   { return tool.Tool{} }
func (k *Keeper) searchTool() tool.Tool { return tool.Tool{} }
