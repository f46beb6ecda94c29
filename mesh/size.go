package mesh

// Sizes, in bytes. All follow from MaxEvent, so that what one face took every other one can
// give back:
//
//   - what is logged at once is an event, and has MaxEvent; what of it is larger, the bytes
//     of files, is kept beside the log, with a reference in the event ([Blob]);
//   - what comes or goes at once over gRPC has MaxWire, which is what gRPC clients of all
//     languages take by themselves, and so leaves room for four events;
//   - a message of a user has MaxLogged of an event, as the rest is for what is logged with it;
//   - a message as it is sent, with the bytes of files in it, has MaxMessage, and its body as
//     JSON, where bytes are base64 and take a third more, MaxBody;
//   - a page of events has MaxPage, or one event more, which is MaxMessage at most; a page of
//     tasks has MaxMessage;
//   - what is streamed of a file comes in pieces of MaxPiece.
const (
	MaxEvent   = 1 << 20
	MaxLogged  = MaxEvent - 16<<10
	MaxMessage = 3 * MaxEvent
	MaxWire    = 4 * MaxEvent
	MaxBody    = MaxMessage * 3 / 2
	MaxPage    = 2 * MaxEvent
	MaxPiece   = MaxEvent / 4
)

// Bounds of what an event may carry, in bytes.
const (
	MaxResult = 64 << 10  // DispatchSettled.Result, ToolReturned.Content, ResultsDelivered.Text
	MaxState  = 256 << 10 // StateNoted.Data

	MaxContext = 4 << 10 // DispatchAccepted.Context
)

// DefaultMaxBlob is how many bytes a [Blob] may have, unless the operator says so.
const DefaultMaxBlob = 256 * MaxEvent
