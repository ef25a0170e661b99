//! Lists that are read page by page, so that no answer is too long.

use kube::api::ListParams;
use kube::{Api, Result};
use serde::de::DeserializeOwned;

use super::client::is_too_large;

/// Objects in a page, unless they are so large that the answer would be too long.
const PAGE: u32 = 500;

/// Reads a page of a list, and sets the parameters to the next one. Returns the objects, and whether there are more.
///
/// # Errors
/// The API server refuses the list or does not answer.
pub async fn page<K>(api: &Api<K>, params: &mut ListParams) -> Result<(Vec<K>, bool)>
where
    K: Clone + DeserializeOwned + std::fmt::Debug,
{
    let mut limit = params.limit.unwrap_or(PAGE);
    let list = loop {
        params.limit = Some(limit);
        match api.list(params).await {
            Err(error) if is_too_large(&error) && limit > 1 => limit /= 2,
            listed => break listed?,
        }
    };
    params.continue_token = list.metadata.continue_.filter(|token| !token.is_empty());
    Ok((list.items, params.continue_token.is_some()))
}

/// Reads a list to its end, page by page.
///
/// # Errors
/// As [`page`].
pub async fn list_all<K>(api: &Api<K>, mut params: ListParams) -> Result<Vec<K>>
where
    K: Clone + DeserializeOwned + std::fmt::Debug,
{
    let mut objects = Vec::new();
    loop {
        let (next, is_more) = page(api, &mut params).await?;
        objects.extend(next);
        if !is_more {
            return Ok(objects);
        }
    }
}
