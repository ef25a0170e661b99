//! Walks a schema and a value together (`validator.go`).

use std::collections::BTreeSet;

use serde_json::{Map, Value as Json};

use super::document::Document;
use super::rules;
use super::violation::{Kind, Violation, all_quoted, quoted};
use crate::budget::Budget;
use crate::fault::Fault;
use crate::funcs::regexes;

/// The properties or indexes that a schema has evaluated, for `unevaluatedProperties` and `unevaluatedItems`.
type Evaluated = BTreeSet<String>;
pub(super) type Verdict = Result<Result<Evaluated, Violation>, Fault>;
type Fields = Map<String, Json>;

/// A value and its path.
#[derive(Clone, Copy)]
pub(super) struct Whole<'a> {
    pub(super) value: &'a Json,
    pub(super) path: Option<&'a Step<'a>>,
}

/// A step on the path to a value.
pub(super) struct Step<'a> {
    token: &'a str,
    parent: Option<&'a Step<'a>>,
}

impl Whole<'_> {
    pub(super) fn pointer(&self) -> String {
        let mut tokens = Vec::new();
        let mut step = self.path;
        while let Some(Step { token, parent }) = step {
            tokens.push(token.replace('~', "~0").replace('/', "~1"));
            step = *parent;
        }
        tokens.iter().rev().map(|token| format!("/{token}")).collect()
    }

    pub(super) fn violation(&self, text: impl Into<String>) -> Violation {
        Violation::new(self.pointer(), text)
    }
}

/// The violations of one schema, and the parts of the value that it evaluated.
#[derive(Default)]
struct Findings {
    violations: Vec<Violation>,
    evaluated: Evaluated,
}

impl Findings {
    /// Adds the verdict of another schema on the same value.
    fn add(&mut self, verdict: Result<Evaluated, Violation>) {
        match verdict {
            Ok(evaluated) => self.evaluated.extend(evaluated),
            Err(violation) => self.violations.push(violation),
        }
    }

    /// Adds the verdict of a schema on a child of the value.
    fn add_inner(&mut self, verdict: Result<Evaluated, Violation>) {
        self.violations.extend(verdict.err());
    }
}

pub(super) struct Validator<'a> {
    pub(super) document: &'a Document<'a>,
    pub(super) budget: &'a Budget,
}

impl Validator<'_> {
    /// Checks a value against a schema. The budget stops circular references.
    pub(super) fn check(&self, schema: &Json, whole: &Whole<'_>) -> Verdict {
        self.budget.step()?;
        self.budget.deeper(|| match schema {
            Json::Bool(false) => Ok(Err(whole.violation("false schema"))),
            Json::Object(fields) => self.check_fields(fields, whole),
            _ => Ok(Ok(Evaluated::new())),
        })
    }

    fn check_fields(&self, schema: &Fields, whole: &Whole<'_>) -> Verdict {
        let draft = self.document.draft;
        let mut findings = Findings::default();
        let reference = schema.get("$ref").and_then(Json::as_str);
        if let Some(reference) = reference.filter(|_| draft < 2019) {
            return self.check_reference(reference, whole);
        }
        self.budget.work(schema.get("enum").and_then(Json::as_array).map_or(0, Vec::len) as u64)?;
        if let Some(text) = rules::whole(schema, whole.value, draft) {
            return Ok(Err(whole.violation(text)));
        }
        if let Some(reference) = reference {
            findings.add(self.check_reference(reference, whole)?);
        }
        for keyword in ["$dynamicRef", "$recursiveRef"] {
            if schema.contains_key(keyword) && draft >= 2019 {
                return Err(Fault::unsupported(format!("{keyword} is not supported")));
            }
        }
        match whole.value {
            Json::Object(object) => self.object(schema, object, whole, &mut findings)?,
            Json::Array(items) => self.array(schema, items, whole, &mut findings)?,
            Json::String(text) => {
                let texts = rules::string(schema, text).into_iter().map(|text| whole.violation(text));
                findings.violations.extend(texts);
                if let Some(pattern) = schema.get("pattern").and_then(Json::as_str)
                    && !regexes::matches(self.budget, pattern, text)?
                {
                    let reason = format!("{} does not match pattern {}", quoted(text), quoted(pattern));
                    findings.violations.push(whole.violation(reason));
                }
            }
            Json::Number(number) => {
                let texts = rules::number(schema, number).into_iter().map(|text| whole.violation(text));
                findings.violations.extend(texts);
            }
            Json::Null | Json::Bool(_) => {}
        }
        self.conditions(schema, whole, &mut findings)?;
        self.unevaluated(schema, whole, &mut findings)?;
        let Findings { mut violations, evaluated } = findings;
        Ok(match violations.len() {
            0 => Ok(evaluated),
            1 => violations.pop().map_or(Ok(evaluated), Err),
            _ => Err(Violation { at: whole.pointer(), kind: Kind::Group, causes: violations }),
        })
    }

    fn check_reference(&self, reference: &str, whole: &Whole<'_>) -> Verdict {
        let Some(target) = self.document.resolve(reference)? else { return Ok(Ok(Evaluated::new())) };
        let verdict = self.check(target, whole)?;
        let at_reference = |violation: Violation| Violation {
            at: whole.pointer(),
            kind: Kind::Reference,
            causes: violation.ungrouped(),
        };
        Ok(verdict.map_err(at_reference))
    }

    /// Checks a property or an item.
    fn check_inner(&self, schema: &Json, whole: &Whole<'_>, (token, value): (&str, &Json)) -> Verdict {
        let step = Step { token, parent: whole.path };
        self.check(schema, &Whole { value, path: Some(&step) })
    }

    fn object(
        &self,
        schema: &Fields,
        object: &Fields,
        whole: &Whole<'_>,
        findings: &mut Findings,
    ) -> Result<(), Fault> {
        let texts = rules::object(schema, object, self.document.draft);
        findings.violations.extend(texts.into_iter().map(|text| whole.violation(text)));
        for keyword in ["dependencies", "dependentSchemas"] {
            let schemas = schema.get(keyword).and_then(Json::as_object).into_iter().flatten();
            let is_known = keyword == "dependencies" || self.document.draft >= 2019;
            for (_, schema) in schemas
                .filter(|(name, schema)| is_known && object.contains_key(name.as_str()) && !schema.is_array())
            {
                findings.add(self.check(schema, whole)?);
            }
        }
        self.properties(schema, object, whole, findings)?;
        if let Some(schema) = schema.get("propertyNames").filter(|_| self.document.draft >= 6) {
            for name in object.keys() {
                let value = Json::String(name.clone());
                if let Err(violation) = self.check(schema, &Whole { value: &value, path: None })? {
                    let text = format!("invalid propertyName {}", quoted(name));
                    let names = whole.violation(text).because(violation.ungrouped());
                    findings.violations.push(names);
                }
            }
        }
        Ok(())
    }

    fn properties(
        &self,
        schema: &Fields,
        object: &Fields,
        whole: &Whole<'_>,
        findings: &mut Findings,
    ) -> Result<(), Fault> {
        let properties = schema.get("properties").and_then(Json::as_object);
        let patterns = schema.get("patternProperties").and_then(Json::as_object);
        let additional = schema.get("additionalProperties");
        let mut refused = Vec::new();
        for (name, value) in object {
            let mut schemas: Vec<&Json> =
                properties.and_then(|schemas| schemas.get(name)).into_iter().collect();
            for (pattern, schema) in patterns.into_iter().flatten() {
                if regexes::matches(self.budget, pattern, name)? {
                    schemas.push(schema);
                }
            }
            if schemas.is_empty() {
                match additional {
                    None => continue,
                    Some(Json::Bool(false)) => refused.push(name.as_str()),
                    Some(schema) => schemas.push(schema),
                }
            }
            for schema in schemas {
                findings.add_inner(self.check_inner(schema, whole, (name, value))?);
            }
            self.evaluated(name, findings);
        }
        if !refused.is_empty() {
            let text = format!("additional properties {} not allowed", all_quoted(refused));
            findings.violations.push(whole.violation(text));
        }
        Ok(())
    }

    fn evaluated(&self, token: &str, findings: &mut Findings) {
        if self.document.tracks_evaluated {
            findings.evaluated.insert(token.to_owned());
        }
    }

    fn array(
        &self,
        schema: &Fields,
        items: &[Json],
        whole: &Whole<'_>,
        findings: &mut Findings,
    ) -> Result<(), Fault> {
        if schema.get("uniqueItems") == Some(&Json::Bool(true)) {
            self.budget.work((items.len() as u64).saturating_mul(items.len() as u64))?;
        }
        findings.violations.extend(rules::array(schema, items).into_iter().map(|text| whole.violation(text)));
        let is_new = self.document.draft >= 2020;
        let of_places = schema.get(if is_new { "prefixItems" } else { "items" }).and_then(Json::as_array);
        let places = of_places.map_or(0, Vec::len);
        let rest = match of_places {
            Some(_) if !is_new => schema.get("additionalItems"),
            _ => schema.get("items").filter(|items| !items.is_array()),
        };
        for (at, (schema, item)) in of_places.into_iter().flatten().zip(items).enumerate() {
            findings.add_inner(self.check_inner(schema, whole, (&at.to_string(), item))?);
            self.evaluated(&at.to_string(), findings);
        }
        if let Some(Json::Bool(false)) = rest.filter(|_| !is_new && of_places.is_some()) {
            let count = items.len().saturating_sub(places);
            if count > 0 {
                let text = format!("last {count} additionalItem(s) not allowed");
                findings.violations.push(whole.violation(text));
            }
        } else if let Some(rest) = rest {
            for (at, item) in items.iter().enumerate().skip(places) {
                findings.add_inner(self.check_inner(rest, whole, (&at.to_string(), item))?);
                self.evaluated(&at.to_string(), findings);
            }
        }
        match schema.get("contains").filter(|_| self.document.draft >= 6) {
            Some(contains) => self.contains(schema, (contains, items), whole, findings),
            None => Ok(()),
        }
    }

    fn contains(
        &self,
        schema: &Fields,
        (contains, items): (&Json, &[Json]),
        whole: &Whole<'_>,
        findings: &mut Findings,
    ) -> Result<(), Fault> {
        let (mut matched, mut causes) = (Vec::new(), Vec::new());
        for (at, item) in items.iter().enumerate() {
            let token = at.to_string();
            match self.check_inner(contains, whole, (&token, item))? {
                Ok(_) => {
                    self.evaluated(&token, findings);
                    matched.push(token);
                }
                Err(violation) => causes.push(violation),
            }
        }
        for text in rules::contains(schema, &matched, self.document.draft) {
            findings.violations.push(whole.violation(text).because(std::mem::take(&mut causes)));
        }
        Ok(())
    }

    fn conditions(&self, schema: &Fields, whole: &Whole<'_>, findings: &mut Findings) -> Result<(), Fault> {
        if let Some(not) = schema.get("not")
            && self.check(not, whole)?.is_ok()
        {
            findings.violations.push(whole.violation("'not' failed"));
        }
        for keyword in ["allOf", "anyOf", "oneOf"] {
            let Some(schemas) = schema.get(keyword).and_then(Json::as_array) else { continue };
            let (mut passed, mut causes) = (Vec::new(), Vec::new());
            for (at, schema) in schemas.iter().enumerate() {
                match self.check(schema, whole)? {
                    Ok(evaluated) => {
                        findings.evaluated.extend(evaluated);
                        passed.push(at);
                    }
                    Err(violation) => causes.push(violation),
                }
            }
            let failed = match (keyword, passed.as_slice()) {
                ("allOf", _) if !causes.is_empty() => "'allOf' failed".to_owned(),
                ("anyOf", []) => "'anyOf' failed".to_owned(),
                ("oneOf", []) => "'oneOf' failed, none matched".to_owned(),
                ("oneOf", [one, other, ..]) => {
                    causes.clear();
                    format!("'oneOf' failed, subschemas {one}, {other} matched")
                }
                _ => continue,
            };
            if !schemas.is_empty() {
                findings.violations.push(whole.violation(failed).because(causes));
            }
        }
        let Some(condition) = schema.get("if").filter(|_| self.document.draft >= 7) else { return Ok(()) };
        let branch = match self.check(condition, whole)? {
            Ok(evaluated) => {
                findings.evaluated.extend(evaluated);
                "then"
            }
            Err(_) => "else",
        };
        if let Some(branch) = schema.get(branch) {
            findings.add(self.check(branch, whole)?);
        }
        Ok(())
    }

    fn unevaluated(&self, schema: &Fields, whole: &Whole<'_>, findings: &mut Findings) -> Result<(), Fault> {
        if self.document.draft < 2019 {
            return Ok(());
        }
        let (keyword, inner): (_, Vec<(String, &Json)>) = match whole.value {
            Json::Object(fields) => {
                ("unevaluatedProperties", fields.iter().map(|(name, value)| (name.clone(), value)).collect())
            }
            Json::Array(items) => (
                "unevaluatedItems",
                items.iter().enumerate().map(|(at, item)| (at.to_string(), item)).collect(),
            ),
            _ => return Ok(()),
        };
        let Some(schema) = schema.get(keyword) else { return Ok(()) };
        for (token, value) in inner {
            if !findings.evaluated.contains(&token) {
                findings.add_inner(self.check_inner(schema, whole, (&token, value))?);
                findings.evaluated.insert(token);
            }
        }
        Ok(())
    }
}
