//! Validates values against `values.schema.json` (Helm's `jsonschema.go`).
//!
//! The validator matches <https://github.com/santhosh-tekuri/jsonschema> v6, which Helm uses, including its
//! messages. Unlike Helm, it never downloads anything: it rejects references to other documents.

mod document;
mod format;
mod rules;
mod validator;
mod violation;

use serde_json::Value as Json;

use self::document::Document;
use self::validator::{Validator, Whole};
use crate::budget::Budget;
use crate::error::Error;
use crate::fault::Fault;
use crate::load::Chart;
use crate::value::{Map, Value};
use crate::yaml::json;

/// Validates the values of a chart and its subcharts.
pub(crate) fn check(chart: &Chart, values: &Map, budget: &Budget) -> Result<(), Error> {
    let mut report = String::new();
    check_chart(chart, values, budget, &mut report)?;
    if report.is_empty() {
        return Ok(());
    }
    let text = "values don't meet the specifications of the schema(s) in the following chart(s):";
    Err(Error::new(format!("{text}\n{report}")).hint("correct the values that the paths name"))
}

fn check_chart(chart: &Chart, values: &Map, budget: &Budget, report: &mut String) -> Result<(), Error> {
    if let Some(schema) = &chart.schema {
        let name = chart.name();
        let text = violations(schema, values, budget)
            .map_err(|fault| Error::from(fault).within(format!("values.schema.json of the chart {name}")))?;
        if !text.is_empty() {
            report.push_str(&format!("{name}:\n{text}\n"));
        }
    }
    for subchart in &chart.dependencies {
        let name = subchart.name();
        match values.get(name) {
            None | Some(Value::Missing | Value::Nil) => {}
            Some(Value::Map(values)) => check_chart(subchart, &values, budget, report)?,
            Some(other) => {
                let typ = other.type_name();
                report.push_str(&format!(
                    "{name}:\ninvalid type for values: expected object (map), got {typ}\n"
                ));
            }
        }
    }
    Ok(())
}

/// Returns one line per violation, or an empty string.
fn violations(schema: &[u8], values: &Map, budget: &Budget) -> Result<String, Fault> {
    budget.bytes(schema.len())?;
    let schema: Json = serde_json::from_slice(schema).map_err(|error| Fault::text(error.to_string()))?;
    let values = json::from_value(&Value::Map(values.clone()))?;
    let document = Document::new(&schema)?;
    let validator = Validator { document: &document, budget };
    let whole = Whole { value: &values, path: None };
    Ok(match validator.check(&schema, &whole)? {
        Ok(_) => String::new(),
        Err(violation) => violation.report(),
    })
}
