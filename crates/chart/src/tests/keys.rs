//! Random values, keys and certificates from a seed.

use proptest::prelude::*;
use rsa::pkcs1v15::Pkcs1v15Sign;
use rsa::pkcs8::DecodePublicKey as _;
use rsa::{RsaPublicKey, signature::Verifier as _};
use sha2::{Digest as _, Sha256};
use x509_cert::der::{DecodePem as _, Encode as _};
use x509_cert::ext::pkix::{AuthorityKeyIdentifier, BasicConstraints, SubjectAltName, SubjectKeyIdentifier};
use x509_cert::{Certificate, TbsCertificate};

use super::{CHART, request, template};
use crate::budget::Work;
use crate::load::Tree;
use crate::random::Fresh;
use crate::render::{Request, render};

/// Renders a template with a seed made from a number.
fn drawn(seed: u8, text: &str) -> String {
    let tree: Tree = [("Chart.yaml", CHART), ("templates/t.yaml", text)]
        .into_iter()
        .map(|(path, text)| (path.to_owned(), text.as_bytes().into()))
        .collect();
    let fresh = Some(Fresh { seed: [seed; 32], now: "2026-11-01T08:00:00Z".parse().unwrap() });
    let rendered = render(&Request { fresh, ..request(&tree) }).unwrap();
    rendered.manifests.into_iter().map(|document| document.text).collect()
}

/// Returns the values of expressions, after actions that declare variables.
fn values<const N: usize>(actions: &str, expressions: [&str; N]) -> [String; N] {
    let lines = expressions.map(|expression| format!("k: {{{{ {expression} | quote }}}}\n---\n"));
    let text = drawn(1, &format!("{actions}\n{}", lines.concat()));
    let values: Vec<String> =
        text.lines().filter_map(|line| serde_json::from_str(line.strip_prefix("k: ")?).ok()).collect();
    values.try_into().unwrap()
}

/// Returns the signed part of a certificate and the signature.
fn signed(pem: &str) -> (TbsCertificate, Vec<u8>) {
    let Certificate { tbs_certificate, signature, .. } = Certificate::from_pem(pem).unwrap();
    (tbs_certificate, signature.raw_bytes().to_vec())
}

#[test]
fn each_function_draws_the_same_from_a_seed_and_something_else_from_another() {
    for call in [
        "randAlphaNum 20",
        "randAlpha 20",
        "randNumeric 20",
        "randAscii 20 | quote",
        "randBytes 20",
        "randInt 0 1000000000",
        "uuidv4",
        "shuffle \"abcdefghijklmnop\"",
        "bcrypt \"secret\"",
        "htpasswd \"user\" \"secret\"",
        "encryptAES \"key\" \"text\"",
        "genPrivateKey \"ecdsa\" | quote",
        "genPrivateKey \"ed25519\" | quote",
        "(genCAWithKey \"ca\" 1 (genPrivateKey \"ed25519\")).Cert | quote",
    ] {
        let text = format!("a: {{{{ {call} }}}}\n");
        assert_eq!(drawn(1, &text), drawn(1, &text), "{call}");
        assert_ne!(drawn(1, &text), drawn(2, &text), "{call}");
    }
}

#[test]
fn values_are_the_same_in_every_release_of_this_crate() {
    let digest = |call: &str| {
        let text = drawn(1, &format!("a: {{{{ {call} | quote }}}}\n"));
        Sha256::digest(text)[..4].iter().map(|byte| format!("{byte:02x}")).collect::<String>()
    };
    // If a digest changes, an upgrade changes the passwords and keys of every fleet.
    assert_eq!(digest("randAlphaNum 20"), "dc5cfa89");
    let keys = ["genPrivateKey \"ecdsa\"", "genPrivateKey \"ed25519\"", "(genCA \"ca\" 1).Key"].map(digest);
    assert_eq!(keys, ["06a80655", "cea0b22f", "a46746e1"]);
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(40) })]

    /// Lines with separate calls, in any order and with anything between them.
    #[test]
    fn a_call_draws_the_same_value_on_any_line(
        order in Just((0..6).collect::<Vec<u32>>()).prop_shuffle(),
        present in proptest::collection::vec(any::<bool>(), 6),
        filler in "[a-z ]{0,20}",
        seed in any::<u8>(),
    ) {
        let line = |name: u32| format!("  key{name}: {{{{ randAlphaNum 12 }}}}\n");
        let others = order.iter().filter(|name| present[**name as usize]);
        let text: String = others.map(|name| format!("# {filler}\n{}", line(*name))).collect();
        let all = drawn(seed, &text);
        for name in order.into_iter().filter(|name| present[*name as usize]) {
            let alone = drawn(seed, &line(name));
            prop_assert!(all.contains(alone.trim()), "{alone} is not in {all}");
        }
    }
}

#[test]
fn calls_in_a_loop_or_a_shared_template_differ() {
    let values = drawn(1, "{{ range until 3 }}a: {{ randAlphaNum 9 }}\n{{ end }}");
    let shared =
        "{{ define \"p\" }}{{ randAlphaNum 9 }}{{ end }}a: {{ include \"p\" . }}\nb: {{ include \"p\" . }}\n";
    for text in [values, drawn(1, shared)] {
        let mut lines: Vec<&str> = text.lines().filter_map(|line| line.split(": ").nth(1)).collect();
        let count = lines.len();
        lines.sort_unstable();
        lines.dedup();
        assert!(count > 1 && lines.len() == count, "{text}");
    }
}

#[test]
fn a_signed_certificate_has_the_fields_of_go_and_is_signed_by_its_authority() {
    let [authority, leaf, key, types] = values(
        "{{ $ca := genCA \"my-ca\" 365 }}{{ $cert := genSignedCert \"web\" (list \"10.0.0.1\" \"::1\") (list \"web.svc\") 30 $ca }}",
        ["$ca.Cert", "$cert.Cert", "$cert.Key", "print (kindOf $ca) \" \" (typeOf $ca)"],
    );
    assert_eq!(types, "struct sprig.certificate");
    assert!(key.starts_with("-----BEGIN RSA PRIVATE KEY-----\n"), "{key}");
    let [authority, leaf] = [authority, leaf].map(|pem| signed(&pem));
    let public =
        RsaPublicKey::from_public_key_der(&authority.0.subject_public_key_info.to_der().unwrap()).unwrap();
    for (body, signature) in [&authority, &leaf] {
        let digest = Sha256::digest(body.to_der().unwrap());
        public.verify(Pkcs1v15Sign::new::<Sha256>(), &digest, signature).unwrap();
    }
    let (authority, leaf) = (authority.0, leaf.0);
    assert_eq!(
        (authority.subject.to_string(), leaf.subject.to_string()),
        ("CN=my-ca".into(), "CN=web".into())
    );
    assert_eq!(leaf.issuer, authority.subject);
    let times = |body: &TbsCertificate| {
        [body.validity.not_before, body.validity.not_after].map(|time| time.to_string())
    };
    assert_eq!(times(&authority), ["2026-11-01T08:00:00Z", "2027-11-01T08:00:00Z"]);
    assert_eq!(times(&leaf), ["2026-11-01T08:00:00Z", "2026-12-01T08:00:00Z"]);
    let is_authority = |body: &TbsCertificate| body.get::<BasicConstraints>().unwrap().unwrap().1.ca;
    assert!(is_authority(&authority) && !is_authority(&leaf));
    let (_, own) = authority.get::<SubjectKeyIdentifier>().unwrap().unwrap();
    let (_, parent) = leaf.get::<AuthorityKeyIdentifier>().unwrap().unwrap();
    assert_eq!(parent.key_identifier, Some(own.0));
    let (_, SubjectAltName(names)) = leaf.get().unwrap().unwrap();
    assert_eq!(names.len(), 3, "{names:?}");
}

#[test]
fn keys_of_other_kinds_sign_certificates() {
    for kind in ["ecdsa", "ed25519"] {
        let actions = format!(
            "{{{{ $k := genPrivateKey \"{kind}\" }}}}{{{{ $c := genSelfSignedCertWithKey \"a\" nil (list \"a.b\") 1 $k }}}}"
        );
        let built = "(buildCustomCert (b64enc $c.Cert) (b64enc $c.Key)).Key";
        let [certificate, key, given, built] = values(&actions, ["$c.Cert", "$c.Key", "$k", built]);
        assert!(key == given && built == given, "{key}\n{given}\n{built}");
        let (body, signature) = signed(&certificate);
        let message = body.to_der().unwrap();
        let public = body.subject_public_key_info.subject_public_key.raw_bytes();
        if kind == "ecdsa" {
            let public = p256::ecdsa::VerifyingKey::from_sec1_bytes(public).unwrap();
            public.verify(&message, &p256::ecdsa::DerSignature::from_bytes(&signature).unwrap()).unwrap();
        } else {
            let public = ed25519_dalek::VerifyingKey::from_bytes(public.try_into().unwrap()).unwrap();
            public.verify(&message, &signature.as_slice().try_into().unwrap()).unwrap();
        }
    }
}

#[test]
fn passwords_and_texts_are_hashed_and_encrypted_as_in_go() {
    let one = |expression: &str| values("", [expression])[0].clone();
    assert_eq!(one("encryptAES \"key\" \"some text\" | decryptAES \"key\""), "some text");
    let hash = one("bcrypt \"secret\"");
    assert!(hash.starts_with("$2a$10$") && hash.len() == 60, "{hash}");
    assert_eq!(one("htpasswd \"a:b\" \"c\""), "invalid username: a:b");
    assert_eq!(one("bcrypt (repeat 72 \"a\") | len"), "60");
    assert_eq!(
        one("bcrypt (repeat 73 \"a\")"),
        "failed to encrypt string with bcrypt: bcrypt: password length exceeds 72 bytes"
    );
    assert_eq!(one("derivePassword 1 \"none\" \"p\" \"u\" \"s\""), "cannot find password template none");
    assert_eq!(one("genPrivateKey \"none\""), "Unknown type none");
}

#[test]
fn mistakes_with_keys_are_errors_with_the_words_of_sprig() {
    let cause = |text: &str| {
        let message = template(text).unwrap_err().message;
        message.rsplit(">: ").next().unwrap().to_owned()
    };
    for (text, expected) in [
        (
            "{{ genCAWithKey \"a\" 1 \"\" }}",
            "error calling genCAWithKey: parsing private key: no PEM data in input",
        ),
        (
            "{{ buildCustomCert \"%\" \"\" }}",
            "error calling buildCustomCert: unable to decode base64 certificate",
        ),
        ("{{ buildCustomCert \"\" \"\" }}", "error calling buildCustomCert: unable to decode certificate"),
        (
            "{{ genSelfSignedCert \"a\" (list \"x\") nil 1 }}",
            "error calling genSelfSignedCert: error parsing ip: x",
        ),
        ("{{ genSignedCert \"a\" nil nil 1 \"ca\" }}", "expected sprig.certificate; found \"ca\""),
        (
            "{{ genPrivateKey \"dsa\" }}",
            "error calling genPrivateKey: DSA keys are not supported; no TLS library accepts them",
        ),
    ] {
        assert_eq!(cause(text), expected, "{text}");
    }
    let other = "{{ $a := genCAWithKey \"a\" 1 (genPrivateKey \"ed25519\") }}{{ $k := genPrivateKey \"ecdsa\" }}\
                 {{ genSignedCert \"b\" nil nil 1 (buildCustomCert (b64enc $a.Cert) (b64enc $k)) }}";
    assert!(
        cause(other).ends_with("x509: provided PrivateKey doesn't match parent's PublicKey"),
        "{}",
        cause(other)
    );
}

#[test]
fn keys_and_hashes_count_towards_the_budget_before_they_are_made() {
    for (steps, call) in [
        (100_000, "genCA \"a\" 1"),
        (1_000_000, "genPrivateKey \"rsa\""),
        (1_000, "genPrivateKey \"ecdsa\""),
        (10_000, "genCAWithKey \"a\" 1 \"\""),
        (100_000, "bcrypt \"a\""),
        (100_000, "derivePassword 1 \"long\" \"p\" \"u\" \"s\""),
    ] {
        let tree: Tree =
            [("Chart.yaml", CHART.to_owned()), ("templates/t.yaml", format!("a: {{{{ {call} }}}}"))]
                .into_iter()
                .map(|(path, text)| (path.to_owned(), text.into_bytes().into()))
                .collect();
        let limits = Work { steps, ..Work::MAX };
        let refused = render(&Request { limits, ..request(&tree) }).unwrap_err();
        assert_eq!(refused.budget, Some("steps"), "{call}: {refused}");
    }
}
