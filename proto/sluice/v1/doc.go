// Package sluicev1 is the API of Sluice, generated from the .proto files beside it by scripts/proto.sh: the services
// that clients call, and the streams between the scheduler and its host managers.
//
// The files describe everything that the API is meant to carry, so that clients stay valid as the scheduler learns more.
// A scheduler refuses what it cannot do yet with UNIMPLEMENTED, and what is wrong with INVALID_ARGUMENT; both carry a
// google.rpc.BadRequest that lists every field with its path and reason. Nothing is accepted and ignored.
package sluicev1
