use k8s_openapi::api::apps::v1::ControllerRevision;
use serde_json::Value;

use crate::builtin::BuiltinKind;
use crate::builtin::checks::{check_not_negative, check_unchanged};
use crate::builtin::columns::{AGE, NAME, column};
use object::Object;

pub(super) static KIND: BuiltinKind = BuiltinKind {
    validate: |old, new, errors| {
        check_unchanged(old, new, &["data"], errors);
        check_not_negative(new, &["revision"], errors);
    },
    columns: &[
        NAME,
        column("Controller", |o, _| controller(o).into()),
        column("Revision", |o, _| o.at(&["revision"]).cloned().unwrap_or(Value::Null)),
        AGE,
    ],
    ..BuiltinKind::of::<ControllerRevision>()
};

fn controller(object: &Object) -> String {
    let owners = object.at(&["metadata", "ownerReferences"]).and_then(Value::as_array);
    let is_controller = |owner: &&Value| owner.get("controller").and_then(Value::as_bool) == Some(true);
    let field =
        |owner: &Value, field: &str| owner.get(field).and_then(Value::as_str).unwrap_or_default().to_owned();
    owners.into_iter().flatten().find(is_controller).map_or("<none>".to_owned(), |owner| {
        format!("{}/{}", field(owner, "kind").to_lowercase(), field(owner, "name"))
    })
}
