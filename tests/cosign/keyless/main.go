// Command keyless records keyless signatures of the artifact in the parent directory, made with sigstore-go's
// virtual Sigstore, because cosign requires services. Usage: go run .
package main

import (
	"bytes"
	"crypto"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"os"
	"time"

	"github.com/secure-systems-lab/go-securesystemslib/dsse"
	protobundle "github.com/sigstore/protobuf-specs/gen/pb-go/bundle/v1"
	protocommon "github.com/sigstore/protobuf-specs/gen/pb-go/common/v1"
	protodsse "github.com/sigstore/protobuf-specs/gen/pb-go/dsse"
	rekor "github.com/sigstore/protobuf-specs/gen/pb-go/rekor/v1"
	"github.com/sigstore/sigstore-go/pkg/root"
	"github.com/sigstore/sigstore-go/pkg/testing/ca"
	"github.com/sigstore/sigstore-go/pkg/tlog"
	"github.com/sigstore/sigstore/pkg/signature"
	"google.golang.org/protobuf/encoding/protojson"
)

const (
	statementType = "application/vnd.in-toto+json"
	subject       = "release@example.com"
	issuer        = "https://issuer.example"
	signs         = "https://sigstore.dev/cosign/sign/v1"
)

// material is what proves the time of a signature.
type material struct {
	entries    []*rekor.TransparencyLogEntry
	timestamps [][]byte
}

func main() {
	manifest := try(os.ReadFile("../manifest.json"))
	ours, other := try(ca.NewVirtualSigstore()), try(ca.NewVirtualSigstore())
	now := time.Now()

	write("trusted_root.json", trustedRoot(ours, now))
	write("signature.json", statement(ours, ours, manifest, signs, now))
	write("attestation.json", statement(ours, ours, manifest, "https://slsa.dev/provenance/v1", now))
	write("other_artifact.json", statement(ours, ours, []byte("another"), signs, now))
	write("other_authority.json", statement(other, ours, manifest, signs, now))
	write("other_log.json", statement(ours, other, manifest, signs, now))
	// The certificate is valid for ten minutes.
	write("expired.json", statement(ours, ours, manifest, signs, now.Add(11*time.Minute)))
	write("timestamp.json", timestamped(ours, ours, manifest))
	write("other_timestamp.json", timestamped(ours, other, manifest))
	write("message.json", message(ours, manifest, now))
}

// trustedRoot returns the trust root of a Sigstore.
func trustedRoot(sigstore *ca.VirtualSigstore, now time.Time) []byte {
	logs := sigstore.RekorLogs()
	for id, log := range logs {
		log.ID = try(hex.DecodeString(id))
	}
	trusted := try(root.NewTrustedRoot(root.TrustedRootMediaType01, sigstore.FulcioCertificateAuthorities(), nil,
		sigstore.TimestampingAuthorities(), logs))
	return try(trusted.MarshalJSON())
}

// envelope signs a statement about an artifact. It returns the certificate and the signature.
func envelope(fulcio *ca.VirtualSigstore, artifact []byte, predicate string) (*x509.Certificate, *dsse.Envelope, []byte) {
	certificate, key, err := fulcio.GenerateLeafCert(subject, issuer)
	check(err)
	payload := fmt.Appendf(nil, `{"_type":"https://in-toto.io/Statement/v1","subject":[{"digest":{"sha256":"%x"}}],"predicateType":%q,"predicate":{}}`,
		sha256.Sum256(artifact), predicate)
	signer := try(signature.LoadSigner(key, crypto.SHA256))
	sig := try(signer.SignMessage(bytes.NewReader(dsse.PAE(statementType, payload))))
	return certificate, &dsse.Envelope{
		PayloadType: statementType,
		Payload:     base64.StdEncoding.EncodeToString(payload),
		Signatures:  []dsse.Signature{{Sig: base64.StdEncoding.EncodeToString(sig)}},
	}, sig
}

// statement returns a bundle whose time is proven by a log.
func statement(fulcio, log *ca.VirtualSigstore, artifact []byte, predicate string, at time.Time) []byte {
	certificate, signed, sig := envelope(fulcio, artifact, predicate)
	made := try(log.GenerateTlogEntry(certificate, signed, sig, at.Unix(), false))
	kind := &rekor.KindVersion{Kind: "intoto", Version: "0.0.2"}
	return bundle(certificate, signed, nil, entry(log, kind, made, at))
}

// entry returns an entry of a log with its promise and its proof, which the virtual Sigstore leaves out.
func entry(log *ca.VirtualSigstore, kind *rekor.KindVersion, made *tlog.Entry, at time.Time) material {
	id, body := try(log.RekorLogID()), made.TransparencyLogEntry().CanonicalizedBody
	payload := tlog.RekorPayload{Body: base64.StdEncoding.EncodeToString(body), IntegratedTime: at.Unix(), LogID: id}
	proof := try(log.GetInclusionProof(body))
	return material{entries: []*rekor.TransparencyLogEntry{{
		LogId:             &protocommon.LogId{KeyId: try(hex.DecodeString(id))},
		KindVersion:       kind,
		IntegratedTime:    at.Unix(),
		InclusionPromise:  &rekor.InclusionPromise{SignedEntryTimestamp: try(log.RekorSignPayload(payload))},
		CanonicalizedBody: body,
		InclusionProof: &rekor.InclusionProof{
			RootHash:   try(hex.DecodeString(*proof.RootHash)),
			TreeSize:   *proof.TreeSize,
			Checkpoint: &rekor.Checkpoint{Envelope: *proof.Checkpoint},
		},
	}}}
}

// timestamped returns a bundle whose time is proven by a timestamp authority.
func timestamped(fulcio, authority *ca.VirtualSigstore, artifact []byte) []byte {
	certificate, signed, sig := envelope(fulcio, artifact, signs)
	return bundle(certificate, signed, nil, material{timestamps: [][]byte{try(authority.TimestampResponse(sig))}})
}

// message returns a bundle that signs the artifact itself, as `cosign sign-blob` does.
func message(sigstore *ca.VirtualSigstore, artifact []byte, at time.Time) []byte {
	entity := try(sigstore.SignAtTime(subject, issuer, artifact, at))
	kind := &rekor.KindVersion{Kind: "hashedrekord", Version: "0.0.1"}
	digest := sha256.Sum256(artifact)
	return bundle(try(entity.VerificationContent()).Certificate(), nil, &protocommon.MessageSignature{
		MessageDigest: &protocommon.HashOutput{Algorithm: protocommon.HashAlgorithm_SHA2_256, Digest: digest[:]},
		Signature:     try(entity.SignatureContent()).Signature(),
	}, entry(sigstore, kind, try(entity.TlogEntries())[0], at))
}

// bundle returns a bundle with either an envelope or a message.
func bundle(certificate *x509.Certificate, signed *dsse.Envelope, message *protocommon.MessageSignature, proof material) []byte {
	verification := &protobundle.VerificationMaterial{
		Content:     &protobundle.VerificationMaterial_Certificate{Certificate: &protocommon.X509Certificate{RawBytes: certificate.Raw}},
		TlogEntries: proof.entries,
	}
	for _, timestamp := range proof.timestamps {
		verification.TimestampVerificationData = &protobundle.TimestampVerificationData{
			Rfc3161Timestamps: []*protocommon.RFC3161SignedTimestamp{{SignedTimestamp: timestamp}},
		}
	}
	made := &protobundle.Bundle{MediaType: "application/vnd.dev.sigstore.bundle.v0.3+json", VerificationMaterial: verification}
	if message != nil {
		made.Content = &protobundle.Bundle_MessageSignature{MessageSignature: message}
	} else {
		made.Content = &protobundle.Bundle_DsseEnvelope{DsseEnvelope: &protodsse.Envelope{
			PayloadType: signed.PayloadType,
			Payload:     try(base64.StdEncoding.DecodeString(signed.Payload)),
			Signatures:  []*protodsse.Signature{{Sig: try(base64.StdEncoding.DecodeString(signed.Signatures[0].Sig))}},
		}}
	}
	return try(protojson.Marshal(made))
}

func write(name string, content []byte) {
	check(os.WriteFile(name, content, 0o644))
}

func try[T any](value T, err error) T {
	check(err)
	return value
}

func check(err error) {
	if err != nil {
		panic(err)
	}
}
