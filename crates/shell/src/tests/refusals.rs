//! Tests the log lines about a server that refuses to list or watch.

use super::*;

#[tokio::test(start_paused = true)]
async fn the_log_has_the_words_of_a_server_that_refuses_to_list_or_to_watch() {
    for (answer, line) in [
        ((|_, _| Reply::Refused(403, 0)) as AnswerFn, r#"WARN cannot list kind=ConfigMap error="no""#),
        (
            |is_watch, _| if is_watch { Reply::Refused(403, 0) } else { Reply::Listed(7) },
            r#"WARN cannot watch; listing the kind repeatedly instead kind=ConfigMap error="no""#,
        ),
    ] {
        let lines = Lines::record();
        let log = watched(MINUTE, answer).await;
        assert!(lines.all().iter().any(|one| one == line), "{:?}", lines.all());
        let may_list = log.listed > 0;
        assert!(if may_list { log.refused.is_empty() } else { log.refused[0] == "no" }, "{:?}", log.refused);
    }
}

#[tokio::test(start_paused = true)]
async fn a_permission_that_is_granted_soon_causes_no_warning() {
    let lines = Lines::record();
    let log = watched(MINUTE, |is_watch, (lists, _)| match (is_watch, lists) {
        (true, _) => Reply::Streams(Bytes::from_static(BOOKMARK)),
        (false, 0 | 1) => Reply::Refused(403, 0),
        (false, _) => Reply::Listed(9),
    });
    assert_eq!(log.await.listed, 1);
    let yet = r#"INFO cannot list yet kind=ConfigMap error="no""#;
    assert_eq!(lines.all(), [yet, yet]);
}
