//! Renders the templates of a chart and its subcharts (Helm's `pkg/engine/engine.go`).

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;

use crate::budget::{Budget, Work};
use crate::error::Error;
use crate::load::{Chart, full_path};
use crate::object::{Capabilities, Object};
use crate::random::{Draw, Fresh, Purpose, Source};
use crate::template::{Env, Set, exec};
use crate::value::{Fields, Map, MapType, Value};

/// The values and facts that all charts of a release share.
pub(crate) struct Release {
    pub(crate) release: Value,
    pub(crate) capabilities: Capabilities,
    pub(crate) values: Map,
    pub(crate) fresh: (Fresh, Purpose),
    pub(crate) limits: Work,
}

/// The output of the templates of a release.
pub(crate) struct Output {
    /// The rendered files by path.
    pub(crate) files: BTreeMap<String, String>,
    /// Calls whose results differ in each rendering.
    pub(crate) draws: Vec<Draw>,
    pub(crate) work: Work,
}

/// A template file and the dot to render it with.
struct Renderable {
    text: String,
    dot: Map,
    base_path: String,
    /// True for a library or a file that starts with `_`, of which only the definitions are used.
    is_partial: bool,
}

pub(crate) fn render(chart: &Chart, release: &Release) -> Result<Output, Error> {
    let mut files = BTreeMap::new();
    collect(chart, release, ("", &release.values), &mut files);
    // Helm's order: sorted by depth and name, then reversed. It determines which definition of a name wins, and
    // what templates see after others have changed shared maps.
    let mut order: Vec<&String> = files.keys().collect();
    order.sort_by_key(|path| (path.matches('/').count(), path.as_str()));
    order.reverse();
    let mut set = Set::default();
    for path in &order {
        let Some(file) = files.get(*path) else { continue };
        set.add(&Rc::from(path.as_str()), &file.text).map_err(|error| {
            let line = u32::try_from(error.line).ok();
            Error::new(format!("parse error at ({path}:{}): {}", error.line, error.reason))
                .in_file(path, line)
                .hint("correct the template at this line")
        })?;
    }
    let env = env(release.fresh, release.limits);
    let set = Rc::new(set);
    let mut outputs = BTreeMap::new();
    for path in order {
        let Some(file) = files.get(path).filter(|file| !file.is_partial) else { continue };
        let template =
            [("Name", Value::str(path.as_str())), ("BasePath", Value::str(file.base_path.as_str()))];
        let template: Map = template.into_iter().collect();
        file.dot.insert("Template", Value::Map(template.typed(MapType::Values)));
        env.output.replace(Rc::from(path.as_str()));
        let output = exec::run(&env, &set, path, Value::Map(file.dot.clone()))?;
        outputs.insert(path.clone(), output.replace("<no value>", ""));
    }
    let work = env.budget.done();
    Ok(Output { files: outputs, draws: env.fresh.into_draws(), work })
}

fn env((fresh, purpose): (Fresh, Purpose), limits: Work) -> Env {
    Env {
        budget: Budget::new(limits),
        included: RefCell::default(),
        fresh: Source::new(fresh, purpose),
        output: RefCell::new(Rc::from("")),
        action: Cell::default(),
    }
}

/// Renders a template that does not belong to a chart.
pub(crate) fn text(template: &str, fresh: Fresh) -> Result<(String, Vec<Draw>), Error> {
    const NAME: &str = "name-template";
    let mut set = Set::default();
    set.add(&Rc::from(NAME), template).map_err(|error| Error::new(error.reason))?;
    let env = env((fresh, Purpose::Comparison), Work::MAX);
    let output = exec::run(&env, &Rc::new(set), NAME, Value::Nil)?;
    Ok((output, env.fresh.into_draws()))
}

/// Collects the templates of a chart and its subcharts. Returns the chart's dot.
fn collect(
    chart: &Chart,
    release: &Release,
    (parent, values): (&str, &Map),
    files: &mut BTreeMap<String, Renderable>,
) -> Map {
    let path = full_path(parent, chart.name());
    let mut subcharts = Fields::new();
    for dependency in &chart.dependencies {
        let inner = match values.get(dependency.name()) {
            Some(Value::Map(inner)) => inner,
            _ => Map::new(Fields::new()),
        };
        let dot = collect(dependency, release, (&path, &inner), files);
        subcharts.insert(dependency.name().into(), Value::Map(dot));
    }
    let dot: Map = [
        ("Chart", chart.metadata.value(parent.is_empty())),
        ("Files", Value::Object(Rc::new(Object::Files(chart.files.clone())))),
        ("Release", release.release.clone()),
        ("Capabilities", Value::Object(Rc::new(Object::Capabilities(release.capabilities.clone())))),
        ("Values", Value::Map(values.clone().typed(MapType::Values))),
        ("Subcharts", Value::map(subcharts)),
    ]
    .into_iter()
    .collect();
    for (name, text) in &chart.templates {
        let is_partial = name.rsplit('/').next().is_some_and(|name| name.starts_with('_'));
        if chart.metadata.is_library && !is_partial {
            continue;
        }
        let file = Renderable {
            text: text.clone(),
            dot: dot.clone(),
            base_path: format!("{path}/templates"),
            is_partial,
        };
        files.insert(format!("{path}/{name}"), file);
    }
    dot
}
