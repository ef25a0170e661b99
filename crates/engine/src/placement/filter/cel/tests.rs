use super::*;

fn cluster() -> ManagedCluster {
    serde_json::from_value(serde_json::json!({
        "metadata": {
            "name": "c1",
            "labels": { "env": "prod", "version": "1.30.6" },
            "annotations": { "inventory": r#"{"gpus": 4}"# },
        },
        "status": {
            "conditions": [],
            "version": { "kubernetes": "v1.30.6" },
            "allocatable": { "cpu": "64", "memory": "256Gi" },
            "clusterClaims": [{ "name": "region", "value": "eu" }],
        },
    }))
    .unwrap()
}

fn check(expression: &str) -> Result<bool, String> {
    let scores = || BTreeMap::from([("usage".to_owned(), vec![("cpu".to_owned(), 60)])]);
    let compiled = Expressions::compile(&[expression.to_owned()], &[SUBJECT])?;
    compiled.matches(&cluster(), &scores, &mut StepBudget::default())
}

#[test]
fn expressions_see_the_whole_cluster() {
    for expression in [
        "managedCluster.metadata.labels['env'] == 'prod'",
        "managedCluster.metadata.labels.exists(k, k == 'env')",
        "managedCluster.status.clusterClaims.exists(c, c.name == 'region' && c.value == 'eu')",
        "managedCluster.status.version.kubernetes == 'v1.30.6'",
        "quantity(managedCluster.status.allocatable.cpu).isGreaterThan(quantity('50'))",
        "semver(managedCluster.metadata.labels.version).isGreaterThan(semver('1.29.0'))",
        "managedCluster.scores('usage').filter(s, s.name == 'cpu').all(s, s.value > 50)",
        "managedCluster.metadata.annotations.inventory.parseJSON().gpus + 1 == 5",
        "managedCluster.metadata.name.matches('^c[0-9]$')",
        "has(managedCluster.spec.hubAcceptsClient)",
        "managedCluster.metadata.name in ['c1', 'c2']",
    ] {
        assert_eq!(check(expression), Ok(true), "{expression}");
    }
}

#[test]
fn a_failing_expression_says_why() {
    for (expression, part) in [
        ("managedCluster.metadata.labels.absent == 'x'", "absent"),
        ("managedCluster.metadata.name", "is not a boolean"),
        ("managedCluster.scores('absent').size() == 0", "no valid AddOnPlacementScore absent"),
        ("'{'.parseJSON() == 1", "EOF"),
    ] {
        let reason = check(expression).unwrap_err();
        assert!(reason.contains(part), "{expression}: {reason}");
    }
}

#[test]
fn an_expression_that_does_not_compile_or_is_too_long_is_refused() {
    for expression in [
        "managedCluster.",
        "Foo{a: 1} == 1",
        &format!("'{}' == ''", "x".repeat(cel::MAX_LENGTH)),
        &format!("'a'{} == ''", ".trim()".repeat(cel::MAX_DEPTH)),
    ] {
        assert!(check(expression).unwrap_err().starts_with("compilation failed: "), "{expression}");
    }
}

#[test]
fn no_expression_runs_long_or_grows_large() {
    let ten = "[0,1,2,3,4,5,6,7,8,9]";
    let deep = format!("{ten}.all(a, {ten}.all(b, {ten}.all(c, {ten}.all(d, {ten}.all(e, true)))))");
    let doubling = format!("['x']{}.size() == 1", ".map(x, x + x)".repeat(30));
    let replacing = format!("'a'{}.size() > 0", ".replace('a', 'aaaaaaaaaaaaaaaa')".repeat(15));
    for expression in [deep, doubling, replacing] {
        let compiled = Expressions::compile(std::slice::from_ref(&expression), &[]).unwrap();
        let mut budget = StepBudget::default();
        assert!(compiled.matches(&cluster(), &BTreeMap::new, &mut budget).is_err(), "{expression}");
    }
}

#[test]
fn expressions_are_limited_in_number_to_the_last_one() {
    let refusal =
        |count: usize| Expressions::compile(&vec!["true".to_owned(); count], &[]).err().unwrap_or_default();
    assert_eq!(refusal(MAX_EXPRESSIONS), "");
    assert!(refusal(MAX_EXPRESSIONS + 1).contains("at most 64 are allowed"));
}

/// The limits add further nesting to an expression.
#[test]
fn the_deepest_expressions_are_evaluated() {
    for (first, each) in [("'a'", ".replace('a', 'a')"), ("'a'", "+'a'"), ("'a'", ".trim()")] {
        let expression = format!("({first}{}) != ''", each.repeat(cel::MAX_DEPTH - 2));
        assert_eq!(check(&expression), Ok(true), "{expression}");
    }
    let lists = format!("{}true{}", "[1].all(x, ".repeat(20), ")".repeat(20));
    assert_eq!(check(&lists), Ok(true));
}

#[test]
fn comparing_each_pair_costs_the_square_of_the_length() {
    let numbers = |times: usize| vec!["[1,2,3,4,5,6,7,8,9]"; times].join(" + ");
    let check = |source: String| {
        let compiled = Expressions::compile(&[source], &[]).unwrap();
        let mut budget = StepBudget::default();
        let result = compiled.matches(&cluster(), &BTreeMap::new, &mut budget);
        (result, budget.spent)
    };
    let (few, spent) = check(format!("({}).distinct().size() == 9", numbers(2)));
    assert!(few == Ok(true) && spent < 50, "{spent}");
    let many = format!("sets.contains({0}, {0})", "lists.range(1000)");
    assert!(check(many).0.unwrap_err().contains("cost more than 10000 steps"));
    let pattern = r"['a'].exists(x, x.matches('\\w{10}'))".to_owned();
    assert!(check(pattern).1 > 500);
}

#[test]
fn texts_are_replaced_up_to_the_largest_factor() {
    let replaced = |length: u64| {
        let text = "a".repeat(usize::try_from(length).unwrap());
        let cluster = serde_json::json!({ "metadata": { "name": "c1", "annotations": { "text": text } } });
        let cluster = serde_json::from_value(cluster).unwrap();
        let expression = "managedCluster.metadata.annotations.text.replace('a', 'b').startsWith('bb')";
        let compiled = Expressions::compile(&[expression.to_owned()], &[SUBJECT]).unwrap();
        compiled.matches(&cluster, &BTreeMap::new, &mut StepBudget::default())
    };
    assert_eq!(replaced(10), Ok(true));
    assert_eq!(replaced(MAX_FACTOR), Ok(true));
    for length in [MAX_FACTOR + 1, MAX_FACTOR + 2] {
        assert!(replaced(length).unwrap_err().contains("the value is too large"));
    }
}

#[test]
fn the_size_of_a_list_or_map_is_the_size_of_its_items() {
    let of = |json: serde_json::Value| size(&cel::value(&json));
    assert_eq!(of(serde_json::json!("abc")), 3);
    assert_eq!(of(serde_json::json!({ "k": "abc" })), 5);
    assert_eq!(of(serde_json::json!(["ab", { "k": "abc" }, 1])), 12);
}

#[test]
fn the_size_of_bytes_is_their_count() {
    assert_eq!(size(&Value::Bytes(Arc::new(vec![0; 3]))), 3);
}

#[test]
fn a_size_is_counted_until_it_is_above_every_limit() {
    let limit = MAX_STEPS_PER_CLUSTER * BYTES_PER_STEP;
    let texts = |lengths: [u64; 2]| {
        let text = |length: u64| Value::String(Arc::new("a".repeat(usize::try_from(length).unwrap())));
        size(&Value::List(Arc::new(lengths.map(text).into())))
    };
    assert_eq!(texts([limit - 2, 1]), limit + 2);
    assert_eq!(texts([limit - 1, 1]), limit + 1);
}

#[test]
fn an_expression_with_a_variable_that_does_not_exist_is_not_compiled() {
    for expression in
        ["cluster.metadata.name == 'c1'", "managedCluster.metadata.labels.exists(k, l == 'env')"]
    {
        let refusal = check(expression).unwrap_err();
        assert!(refusal.starts_with("compilation failed: undeclared reference to '"), "{refusal}");
    }
    assert_eq!(
        check("managedCluster.metadata.labels.exists(k, k == 'env') && sets.contains([1], [1])"),
        Ok(true)
    );
}

#[test]
fn the_rules_of_a_work_have_the_limit_of_one_cluster() {
    let ten = "[0,1,2,3,4,5,6,7,8,9]";
    let rule = (0..5).fold("true".to_owned(), |inner, level| format!("{ten}.all(x{level}, {inner})"));
    let refusal = Expressions::compile(&[rule], &[]).unwrap().hold(&[]).unwrap_err();
    assert_eq!(refusal, format!("the expressions cost more than {MAX_STEPS_PER_CLUSTER} steps"));
    assert_eq!(Expressions::compile(&["1 + 1 == 2".to_owned()], &[]).unwrap().hold(&[]), Ok(true));
}

#[test]
fn any_bytes_are_a_placement_expression_or_refused() {
    let seeds = [
        "managedCluster.metadata.labels['env'] == 'prod' && managedCluster.scores('usage').size() > 0",
        "managedCluster.status.clusterClaims.exists(c, c.name == 'region' && c.value in ['eu', 'us'])",
        "quantity(managedCluster.status.allocatable.cpu).isGreaterThan(quantity('50'))",
        "semver(managedCluster.metadata.labels.version).isLessThan(semver('1.29.0')) ? true : 1u < 2u",
        "managedCluster.metadata.annotations.inventory.parseJSON().gpus + 1 == 5",
        "[1, 2].map(x, x * 2).filter(x, x % 3 == 0).size() == dyn({'a': 1.5e3}.size())",
        "'%s-%d'.format(['a', 1]).replace('a', 'b', 1).split('-').join('').matches('^b[0-9]+$')",
        "duration('1h').getHours() == 1 && timestamp('2026-01-01T00:00:00Z').getFullYear() == 2026",
        "ip('10.0.0.1').family() == 4 && cidr('10.0.0.0/8').containsIP('10.0.0.1') && url('https://a/b').getHost() == 'a'",
    ];
    let seeds = seeds.map(|seed| seed.as_bytes().to_vec());
    let (cluster, scores) =
        (cluster(), || BTreeMap::from([("usage".to_owned(), vec![("cpu".to_owned(), 60)])]));
    let run = |bytes: &[u8]| {
        // libFuzzer installs a hook that aborts the process on every panic, even if the panic is caught.
        drop(std::panic::take_hook());
        let sources = [String::from_utf8_lossy(bytes).into_owned()];
        let Ok(compiled) = Expressions::compile(&sources, &[SUBJECT, "object"]) else { return };
        let mut budget = StepBudget::default();
        let matches = compiled.matches(&cluster, &scores, &mut budget);
        assert!(!budget.exhausted || matches.is_err(), "it cost too much and counts");
        assert_eq!(budget.spent, USED_STEPS.get());
        let _ = compiled.hold(&[("object", &serde_json::json!({ "status": { "a": [1, "b", null] } }))]);
    };
    let words = [
        "managedCluster",
        ".scores('usage')",
        ".parseJSON()",
        ".map(x, x + x)",
        ".all(y, y == 1)",
        ".exists(",
        "has(",
        "quantity('1')",
        "semver('1.0.0')",
        "duration(",
        ".format([",
        ".replace(",
        " in ",
        "9223372036854775807",
        "b'\\xff'",
        "1e309",
        "? :",
        "&&",
        "||",
        "optional.of(",
    ];
    crate::fuzz::Target { name: "placement_expression", run: &run, seeds: &seeds, words: &words }.fuzz();
}
