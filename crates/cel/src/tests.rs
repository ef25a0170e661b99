use std::thread;

use kube_cel::KubeCelExt as _;
use kube_cel::cel::Context;

use super::tokens::MAX_BRACKETS;
use super::*;

/// Returns expressions that are nested or chained `times` times.
fn deep(times: usize) -> Vec<String> {
    let around = |open: &str, close: &str| format!("{}1{}", open.repeat(times), close.repeat(times));
    let behind = |first: &str, each: &str| format!("{first}{}", each.repeat(times));
    vec![
        around("(", ")"),
        around("[", "]"),
        around("{1:", "}"),
        around("-(", ")"),
        around("string(", ")"),
        around("[1].all(x,", ")"),
        around("[1].map(x,", ")"),
        around("false ? 1 : ", ""),
        around("true ? ", " : 1"),
        behind("self", ".a"),
        behind("self", "[0]"),
        behind("1", "+1"),
        behind("1", "==1"),
        behind("true", "&&true"),
        behind("true", "||true"),
        behind("'a'", ".trim()"),
        behind("'a'", ".replace('a','a')"),
    ]
}

/// Runs a test on a thread whose stack is too small for the parser and the evaluator.
fn on_a_small_stack(test: impl FnOnce() + Send + 'static) {
    thread::Builder::new().stack_size(128 << 10).spawn(test).unwrap().join().unwrap();
}

#[test]
fn no_nesting_ends_the_process() {
    on_a_small_stack(|| {
        for times in [10, 20, 90, 100, 1_000, 4_000, 100_000] {
            for source in deep(times) {
                let Ok(expression) = parse(&source) else { continue };
                let mut context = Context::default();
                context.register_all();
                let _ = evaluate(|| context.resolve(&expression).map_err(|e| e.to_string()));
            }
        }
    });
}

#[test]
fn expressions_are_limited_in_length_brackets_and_depth_to_the_last_one() {
    let text = |length: usize| parse(&format!("'{}'", "x".repeat(length - 2)));
    assert!(text(MAX_LENGTH).is_ok());
    assert_eq!(
        text(MAX_LENGTH + 1).unwrap_err(),
        "the expression has 8193 bytes, but at most 8192 are allowed"
    );
    let fields = |levels: usize| parse(&format!("self{}", ".a".repeat(levels - 1)));
    assert!(fields(MAX_DEPTH).is_ok());
    assert_eq!(fields(MAX_DEPTH + 1).unwrap_err(), "the expression is nested more than 100 levels deep");
    let lists = |nested: usize| parse(&format!("{}{}", "[".repeat(nested), "]".repeat(nested)));
    assert!(lists(MAX_BRACKETS - 1).is_ok());
    assert_eq!(lists(MAX_BRACKETS + 1).unwrap_err(), "brackets are nested more than 96 levels deep");
    assert!(parse("self.").unwrap_err().contains("Syntax error"), "{:?}", parse("self."));
}

#[test]
fn a_sign_that_the_crate_would_leave_out_is_refused() {
    for source in
        ["!!true", "! ! true", "!\n// no\n!true", "--1", "1 - --1", "1 in --1", "f(--1)", "!!(!!(!!(true)))"]
    {
        assert!(parse(source).unwrap_err().contains("is not supported"), "{source}");
    }
    for (source, result) in [
        ("!(!true)", Value::Bool(true)),
        ("1--1", Value::Int(2)),
        ("-(-1)", Value::Int(1)),
        ("[1][0] - -1", Value::Int(2)),
        ("'!!' + \"--\"", value(&"!!--".into())),
        (r"'\'!!'", value(&"'!!".into())),
        (r"size(r'\' + '!!')", Value::Int(3)),
        ("1 // !!", Value::Int(1)),
    ] {
        let expression = parse(source).unwrap();
        let resolved = evaluate(|| Context::default().resolve(&expression).map_err(|e| e.to_string()));
        assert_eq!(resolved, Ok(result), "{source}");
    }
}

/// After an error the parser continues with the rest, which may take hours.
#[test]
fn parsing_stops_at_an_invalid_token() {
    let signs = "!!(".repeat(60);
    for start in ["'a", "'a\n", r"'\q ", "#", "!&", r#""\u12"#, "r'a\n", r"1r'\'!#!", "`a"] {
        let source = format!("{start}{signs}");
        let reason = parse(&source).unwrap_err();
        assert!(
            reason.contains("unexpected input at") || reason.contains("is not supported"),
            "{source}: {reason}"
        );
    }
}

#[test]
fn long_conditions_are_not_deep() {
    assert!(parse(&format!("true{}", " && self.a == 1".repeat(300))).is_ok());
}

#[test]
fn a_panic_is_an_error() {
    let failed = evaluate(|| -> Result<(), String> { panic!("unexpected") });
    assert_eq!(failed, Err("the expression failed unexpectedly".into()));
}

#[test]
fn whole_numbers_that_fit_are_int() {
    assert_eq!(value(&serde_json::json!(1)), Value::Int(1));
    assert_eq!(value(&serde_json::json!(u64::MAX)), Value::UInt(u64::MAX));
    assert_eq!(value(&serde_json::json!(1.5)), Value::Float(1.5));
}

#[test]
fn expensive_arguments_are_refused() {
    for (source, reason) in [
        ("lists.range(1001)", "the argument of lists.range must be a literal of at most 1000"),
        ("lists.range(size(self))", "the argument of lists.range must be a literal of at most 1000"),
        (r"self.matches('\\w{100}')", "the regular expression of matches is invalid or too large"),
        ("self.find('(((a{100}){100}){100})')", "the regular expression of find is invalid or too large"),
        ("self.matches('(')", "the regular expression of matches is invalid or too large"),
        ("matches(self, 'a' + 'b')", "the regular expression of matches must be a string literal"),
        ("self.findAll(other)", "the regular expression of findAll must be a string literal"),
        ("'%.65535f'.format([1.0])", "the precision in format must be at most 100"),
        ("'%d%%%.101e'.format([1, 1.0])", "the precision in format must be at most 100"),
        ("'%.99999999999999999999f'.format([1.0])", "the precision in format must be at most 100"),
        ("('%.6' + '5535f').format([1.0])", "the format string must be a string literal"),
        ("format(self, [1.0])", "the format string must be a string literal"),
    ] {
        assert_eq!(parse(source).unwrap_err(), reason, "{source}");
    }
    let several = |times: usize| parse(&vec![r"self.matches('\\w{10}')"; times].join(" && "));
    assert!(several(1).is_ok());
    assert!(several(3).unwrap_err().contains("too large"));
    for source in [
        "lists.range(1000).size() == 1000",
        "'%.100f %s 100%%.200 %.e'.format([1.0, self, 2.0]) + format('%d', [1])",
        r"self.matches('^[\\w.+-]+@[\\w-]+\\.[\\w.-]+$')",
        r"self.matches(r'^\d{1,3}(\.\d{1,3}){3}$') && self.matches('^[a-z0-9]([-a-z0-9]*[a-z0-9])?$')",
    ] {
        assert_eq!(parse(source).err(), None, "{source}");
    }
}
