//! Reads kubeconfigs.
//!
//! kube's own functions parse YAML directly into its types. This module parses it into JSON first, as Go's clients do.
//! Otherwise, the compiler would generate the YAML parser for each type, which is 0.3 MB of the agent.

use std::path::{Path, PathBuf};
use std::{env, fs, io};

use kube::Config;
use kube::config::{KubeConfigOptions, Kubeconfig, KubeconfigError};
use serde::de::Error as _;
use serde_json::Value;

/// Returns the client config for the context, or else the current one, of a kubeconfig. Without a file, it is the
/// config of `KUBECONFIG`, `~/.kube/config`, or, if there is no context either, the service account of the pod.
///
/// # Errors
/// Returns an error if there is no config, or it is invalid.
pub async fn config(kubeconfig: Option<&Path>, context: Option<&str>) -> Result<Config, KubeconfigError> {
    let options = KubeConfigOptions { context: context.map(str::to_owned), ..KubeConfigOptions::default() };
    let read = match kubeconfig {
        Some(path) => read_kubeconfig(path),
        None => read_default(),
    };
    let config = match read {
        Ok(read) => Config::from_custom_kubeconfig(read, &options).await,
        Err(error) => Err(error),
    };
    match config {
        Err(error) if kubeconfig.is_none() && context.is_none() => Config::incluster().map_err(|_| error),
        config => config,
    }
}

/// Reads a kubeconfig file. Paths in it are relative to its directory.
///
/// # Errors
/// Returns an error if the file cannot be read or parsed.
pub fn read_kubeconfig(path: &Path) -> Result<Kubeconfig, KubeconfigError> {
    let read = fs::read(path).and_then(text);
    let text = read.map_err(|error| KubeconfigError::ReadConfig(error, path.into()))?;
    let mut kubeconfig = parse_kubeconfig(&text)?;
    if let Some(directory) = path.parent() {
        resolve_paths(&mut kubeconfig, directory);
    }
    Ok(kubeconfig)
}

/// Parses a kubeconfig. Several documents are merged like several files.
///
/// # Errors
/// Returns an error if the text does not parse. Its first line does not quote the text.
pub fn parse_kubeconfig(text: &str) -> Result<Kubeconfig, KubeconfigError> {
    let refused = |error: serde_saphyr::Error| KubeconfigError::Parse(Box::new(error));
    let documents: Vec<Value> = serde_saphyr::from_multiple(text).map_err(refused)?;
    documents.into_iter().try_fold(Kubeconfig::default(), |merged, document| {
        let parsed = serde_json::from_value(document);
        merged.merge(parsed.map_err(|error| refused(serde_saphyr::Error::custom(without_value(&error))))?)
    })
}

/// Describes an error without the value that it quotes, which may be a credential.
fn without_value(error: &serde_json::Error) -> String {
    let error = error.to_string();
    match error.rsplit_once(", expected ") {
        Some((_, expected)) => format!("failed to parse a field: expected {expected}"),
        None => error,
    }
}

fn read_default() -> Result<Kubeconfig, KubeconfigError> {
    let named = env::var_os("KUBECONFIG").unwrap_or_default();
    let paths: Vec<PathBuf> = env::split_paths(&named).filter(|path| !path.as_os_str().is_empty()).collect();
    if paths.is_empty() {
        let home = env::home_dir().ok_or(KubeconfigError::FindPath)?;
        return read_kubeconfig(&home.join(".kube/config"));
    }
    paths.iter().try_fold(Kubeconfig::default(), |merged, path| merged.merge(read_kubeconfig(path)?))
}

/// Decodes a file. Tools on Windows write UTF-16, or a byte order mark.
fn text(bytes: Vec<u8>) -> io::Result<String> {
    let utf16 = |bytes: &[u8], unit: fn([u8; 2]) -> u16| {
        let units: Vec<u16> = bytes.as_chunks().0.iter().copied().map(unit).collect();
        String::from_utf16(&units).map_err(|_| io::Error::new(io::ErrorKind::InvalidData, "invalid UTF-16"))
    };
    match bytes.as_slice() {
        [0xFF, 0xFE, bytes @ ..] => utf16(bytes, u16::from_le_bytes),
        [0xFE, 0xFF, bytes @ ..] => utf16(bytes, u16::from_be_bytes),
        _ => {
            let text = String::from_utf8(bytes);
            let text = text.map_err(|_| io::Error::new(io::ErrorKind::InvalidData, "invalid UTF-8"))?;
            Ok(text.strip_prefix('\u{feff}').map(str::to_owned).unwrap_or(text))
        }
    }
}

/// Resolves relative paths. A command without a separator is looked up in `PATH`, as by client-go.
fn resolve_paths(kubeconfig: &mut Kubeconfig, directory: &Path) {
    let clusters = kubeconfig.clusters.iter_mut().filter_map(|named| named.cluster.as_mut());
    let authorities = clusters.map(|cluster| &mut cluster.certificate_authority);
    let users = kubeconfig.auth_infos.iter_mut().filter_map(|named| named.auth_info.as_mut());
    let of_users = users.flat_map(|user| {
        let command = user.exec.as_mut().map(|exec| &mut exec.command);
        let command = command.filter(|command| command.as_deref().is_some_and(|name| name.contains('/')));
        let files = [&mut user.client_certificate, &mut user.client_key, &mut user.token_file];
        files.into_iter().chain(command)
    });
    for path in authorities.chain(of_users).flatten() {
        // An absolute path replaces the directory.
        if let Some(resolved) = directory.join(&*path).to_str() {
            *path = resolved.to_owned();
        }
    }
}

#[cfg(test)]
#[path = "tests/kubeconfig.rs"]
mod tests;
