package mesostest

// JSON writes a message as the stand-in does.
func JSON(message any) []byte { return appendJSON(nil, message) }
