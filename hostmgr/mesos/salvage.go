package mesos

import (
	"encoding/json"

	api "github.com/mesos/mesos-go/api/v1/lib"
	"github.com/mesos/mesos-go/api/v1/lib/scheduler"
	"google.golang.org/protobuf/encoding/protowire"
)

// offersIn returns the event of an OFFERS record that makes no sense with the offers that do. Of those that do not it has the ids, where
// they can be read, and nothing else. It returns nil where the record is of another kind, or is broken beside its offers.
func offersIn(record []byte, asJSON bool) *scheduler.Event {
	split, decode, idOf := splitProtobuf, (*api.Offer).Unmarshal, protobufID
	if asJSON {
		split, decode, idOf = splitJSON, func(o *api.Offer, data []byte) error { return decodeLeniently(data, o) }, jsonID
	}
	parts, ok := split(record)
	if !ok {
		return nil
	}
	list := &scheduler.Event_Offers{}
	for _, part := range parts {
		var o api.Offer
		if guarded(func() error { return decode(&o, part) }) != nil {
			o = api.Offer{ID: api.OfferID{Value: idOf(part)}}
		}
		list.Offers = append(list.Offers, o)
	}
	return &scheduler.Event{Type: scheduler.Event_OFFERS, Offers: list}
}

// Numbers of fields, of an event, of its list of offers, and of an offer and its id.
const (
	eventType, eventOffers = 1, 3
	offersOffers           = 1
	offerID, offerIDValue  = 1, 1
)

func splitProtobuf(record []byte) (offers [][]byte, ok bool) {
	isOffers := false
	err := eachField(record, func(number protowire.Number, n uint64, list []byte) error {
		switch number {
		case eventType:
			isOffers = n == uint64(scheduler.Event_OFFERS)
		case eventOffers:
			return eachField(list, func(number protowire.Number, _ uint64, offer []byte) error {
				if number == offersOffers {
					offers = append(offers, offer)
				}
				return nil
			})
		}
		return nil
	})
	return offers, err == nil && isOffers
}

func protobufID(offer []byte) (id string) {
	_ = eachField(offer, func(number protowire.Number, _ uint64, message []byte) error { // what comes before the damage
		if number != offerID {
			return nil
		}
		return eachField(message, func(number protowire.Number, _ uint64, value []byte) error {
			if number == offerIDValue {
				id = string(value)
			}
			return nil
		})
	})
	return id
}

// eachField goes through the fields of a message: numbers have n, text and messages have bytes.
func eachField(message []byte, fn func(number protowire.Number, n uint64, bytes []byte) error) error {
	for len(message) > 0 {
		number, kind, length := protowire.ConsumeTag(message)
		if length < 0 {
			return protowire.ParseError(length)
		}
		message = message[length:]
		var n uint64
		var bytes []byte
		switch kind {
		case protowire.VarintType:
			n, length = protowire.ConsumeVarint(message)
		case protowire.BytesType:
			bytes, length = protowire.ConsumeBytes(message)
		default:
			length = protowire.ConsumeFieldValue(number, kind, message)
		}
		if length < 0 {
			return protowire.ParseError(length)
		}
		message = message[length:]
		if err := fn(number, n, bytes); err != nil {
			return err
		}
	}
	return nil
}

func splitJSON(record []byte) (offers [][]byte, ok bool) {
	var event struct {
		Type   string `json:"type"`
		Offers struct {
			Offers []json.RawMessage `json:"offers"`
		} `json:"offers"`
	}
	if json.Unmarshal(record, &event) != nil || event.Type != scheduler.Event_OFFERS.String() {
		return nil, false
	}
	for _, offer := range event.Offers.Offers {
		offers = append(offers, offer)
	}
	return offers, true
}

func jsonID(offer []byte) string {
	var o struct {
		ID struct {
			Value string `json:"value"`
		} `json:"id"`
	}
	_ = json.Unmarshal(offer, &o) // which is filled in as far as it makes sense
	return o.ID.Value
}
