//! Reads lists page by page, so that no response is too large.

use std::time::Duration;

use kube::api::ListParams;
use kube::{Api, Error, Result};
use serde::de::DeserializeOwned;
use tokio::time::sleep;

use super::client::{is_too_large, retry_after};

/// Objects per page, unless the response would be too large: 500 objects of 4 KiB are 2 MiB.
pub(super) const PAGE: u32 = 500;
/// The total time that one page waits for a busy server. After the client has cut off a large page, the server may
/// still count it against the next one.
const BUSY: Duration = Duration::from_secs(30);

/// Reads a page of a list, and advances the parameters to the next one. Returns the objects, and whether there are
/// more.
///
/// # Errors
/// Returns an error if the API server refuses the list or does not respond.
pub async fn page<K>(api: &Api<K>, params: &mut ListParams) -> Result<(Vec<K>, bool)>
where
    K: Clone + DeserializeOwned + std::fmt::Debug,
{
    params.limit.get_or_insert(PAGE);
    let mut refusals = Refusals::default();
    let list = loop {
        let answer = api.list(params).await;
        if let Some(list) = refusals.of(answer, params).await? {
            break list;
        }
    };
    params.continue_token = list.metadata.continue_.filter(|token| !token.is_empty());
    Ok((list.items, params.continue_token.is_some()))
}

/// The refused requests for one page of a list.
#[derive(Default)]
pub(super) struct Refusals {
    waited: Duration,
}

impl Refusals {
    /// Returns the response to a request for a page, or `None` to send the request again. After a response that
    /// was too large, `params` ask for fewer objects. After a refusal by a busy server, this waits as long as the
    /// server requested.
    pub(super) async fn of<T>(&mut self, answer: Result<T>, params: &mut ListParams) -> Result<Option<T>> {
        match answer {
            Err(error) if is_too_large(&error) && params.limit > Some(1) => {
                params.limit = params.limit.map(|limit| limit / 2);
            }
            Err(error) if is_busy(&error, self.waited) => {
                self.waited += retry_after(&error);
                sleep(retry_after(&error)).await;
            }
            answer => return answer.map(Some),
        }
        Ok(None)
    }
}

/// Returns true if a server is busy, and the page may wait as long as it requests, in addition to `waited`.
fn is_busy(error: &Error, waited: Duration) -> bool {
    let wait = retry_after(error);
    !wait.is_zero() && waited.checked_add(wait).is_some_and(|all| all <= BUSY)
}

/// Reads a list to its end, page by page.
///
/// # Errors
/// Returns the errors of [`page`].
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
