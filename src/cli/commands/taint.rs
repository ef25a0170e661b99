//! `wheelwright taint`.

use anyhow::anyhow;
use serde_json::json;

use crate::cli::output::Ui;
use crate::cli::runtime::block_on;
use crate::cli::writer::{WriteArgs, Writer};
use crate::cli::{CommandError, CommandResult};
use api::cluster::v1::{ManagedCluster, Taint, TaintEffect};
use engine::plural::counted;
use object::Key;

/// Taint a cluster, so that placements without a toleration do not select it, or remove a taint.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Name of the cluster.
    cluster: String,
    /// Taint to set, as `KEY[=VALUE]:EFFECT`, or to remove, as `KEY-` or `KEY:EFFECT-`. The effects are
    /// NoSelect, PreferNoSelect and NoSelectIfNew.
    #[arg(required = true, value_parser = parse)]
    taints: Vec<TaintChange>,
    #[command(flatten)]
    write: WriteArgs,
}

/// A change to the taints of a cluster.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum TaintChange {
    /// Sets a taint.
    Set { key: String, value: String, effect: TaintEffect },
    /// Removes the taints with a key and, if given, an effect.
    Remove { key: String, effect: Option<TaintEffect> },
}

fn parse(text: &str) -> Result<TaintChange, String> {
    let effect = |text: &str| match TaintEffect::from(text.to_owned()) {
        TaintEffect::Other(other) => {
            Err(format!("{other} is not a taint effect; write one of {}", TaintEffect::VALUES.join(", ")))
        }
        effect => Ok(effect),
    };
    let (text, is_removal) = text.strip_suffix('-').map_or((text, false), |text| (text, true));
    let (taint, named) = text.rsplit_once(':').map_or((text, None), |(taint, named)| (taint, Some(named)));
    let (key, value) = taint.split_once('=').unwrap_or((taint, ""));
    let fault = object::names::qualified_name_fault(key);
    if let Some(fault) = fault {
        return Err(format!("the key {key:?} is refused: {fault}"));
    }
    match named {
        named if is_removal => {
            Ok(TaintChange::Remove { key: key.into(), effect: named.map(effect).transpose()? })
        }
        Some(named) => Ok(TaintChange::Set { key: key.into(), value: value.into(), effect: effect(named)? }),
        None => Err("write KEY[=VALUE]:EFFECT to set a taint, or KEY- to remove it".into()),
    }
}

pub(crate) fn run(args: &Args, ui: &mut Ui) -> CommandResult {
    block_on(async {
        let mut writer = args.write.connect().await?;
        let taints = write(&mut writer, &args.cluster, &args.taints).await?.spec.taints;
        writer.add_line(format!("cluster {} has {}", args.cluster, counted(taints.len(), "taint")));
        writer.finish(ui)
    })
}

/// Changes the taints of a cluster, which must exist.
pub(super) async fn write(
    writer: &mut Writer,
    cluster: &str,
    changes: &[TaintChange],
) -> Result<ManagedCluster, CommandError> {
    let hint = "wheelwright get clusters";
    let change = |object: &ManagedCluster| {
        let mut taints = object.spec.taints.clone();
        for change in changes {
            apply(&mut taints, change)
                .map_err(|error| CommandError::hinted(anyhow!("cluster {cluster}: {error}"), hint))?;
        }
        Ok(json!({"taints": taints}))
    };
    writer.update::<ManagedCluster>(&Key::cluster(cluster), hint, change).await
}

/// Applies a change to the taints. An unchanged taint keeps its time; the hub sets the time of a new one.
pub(super) fn apply(taints: &mut Vec<Taint>, change: &TaintChange) -> Result<(), String> {
    match change {
        TaintChange::Set { key, value, effect } => {
            let is_same = |taint: &Taint| taint.key == *key && taint.effect == *effect;
            if taints.iter().any(|taint| is_same(taint) && taint.value == *value) {
                return Ok(());
            }
            taints.retain(|taint| !is_same(taint));
            let taint =
                Taint { key: key.clone(), value: value.clone(), effect: effect.clone(), ..Taint::default() };
            taints.push(taint);
        }
        TaintChange::Remove { key, effect } => {
            let before = taints.len();
            taints.retain(|taint| taint.key != *key || effect.as_ref().is_some_and(|e| taint.effect != *e));
            if taints.len() == before {
                return Err(format!("there is no taint {key}"));
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_taint_is_written_as_kubectl_taints_nodes() {
        let set = |value: &str| TaintChange::Set {
            key: "gpu".into(),
            value: value.into(),
            effect: TaintEffect::NoSelect,
        };
        assert_eq!(parse("gpu=yes:NoSelect"), Ok(set("yes")));
        assert_eq!(parse("gpu:NoSelect"), Ok(set("")));
        let remove = |effect| Ok(TaintChange::Remove { key: "gpu".into(), effect });
        assert_eq!(parse("gpu-"), remove(None));
        assert_eq!(parse("gpu:NoSelect-"), remove(Some(TaintEffect::NoSelect)));
        for wrong in ["gpu", "gpu=yes", "gpu:Never", ":NoSelect", "-"] {
            assert!(parse(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_taint_is_set_once_and_one_that_is_not_there_cannot_be_removed() {
        let mut taints = Vec::new();
        for _ in 0..2 {
            apply(&mut taints, &parse("gpu=yes:NoSelect").unwrap()).unwrap();
        }
        apply(&mut taints, &parse("gpu=no:NoSelect").unwrap()).unwrap();
        assert_eq!(taints.iter().map(|taint| taint.value.as_str()).collect::<Vec<_>>(), ["no"]);
        apply(&mut taints, &parse("gpu-").unwrap()).unwrap();
        assert!(apply(&mut taints, &parse("gpu-").unwrap()).is_err());
    }
}
