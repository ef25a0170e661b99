//! The pages of the dashboard, and the content about a whole fleet.

use std::fmt::Write as _;

use super::html::{button, cluster_link, document, escape, list};
use super::rollouts::Rollouts;
use super::shown::Shown;
use controllers::hub::overview::{Clusters, HeldObjects, ObjectList, Overview, ReportSummary, Repository};
use object::text::short_commit;

/// Limit of the unavailable clusters that are shown one by one.
const SHOWN: usize = 200;

/// The form that finds a cluster. It stands beside the content, whose updates would take away what is typed.
const FIND: &str = "<form role=\"search\" action=\"cluster\"><label for=\"of\">Cluster</label> \
    <input id=\"of\" name=\"of\" autocomplete=\"off\" autocapitalize=\"none\" required> <button>Show</button></form>";

/// Returns the whole document around the content; with the name of a visitor who may log out.
pub(super) fn page(content: &str, visitor: Option<&str>) -> String {
    let visitor = visitor.map(|name| {
        format!(
            "<form method=\"post\" action=\"logout\"><span>{}</span> <button>Log out</button></form>",
            escape(name)
        )
    });
    document(
        "Fleet",
        "<script src=\"script.js\" defer></script>",
        &format!(
            "<p id=\"state\" role=\"status\">as it was when the page was loaded</p>{}",
            visitor.unwrap_or_default()
        ),
        &format!(
            "{FIND}<p id=\"refusal\" class=\"problem\" role=\"alert\"></p><main id=\"fleet\">{content}</main>"
        ),
    )
}

/// Returns the page that asks for a token, and why the last one was not taken.
pub(super) fn login(why: &str) -> String {
    let why = if why.is_empty() {
        String::new()
    } else {
        format!("<p class=\"problem\" role=\"alert\">{}</p>", escape(why))
    };
    let main = format!(
        "<main><h2>Log in</h2>{why}<p>You see what the hub lets you see. A token of a service account comes from \
         <code>kubectl create token NAME</code>.</p><form method=\"post\" action=\"login\"><p>\
         <label for=\"token\">Token of the hub</label><br><input type=\"password\" id=\"token\" name=\"token\" \
         autocomplete=\"off\" required></p><p><button>Log in</button></p></form></main>"
    );
    document("Log in", "", "", &main)
}

/// Returns the page about a request that was refused.
pub(super) fn refused(why: &str) -> String {
    let main = format!(
        "<main><p class=\"problem\" role=\"alert\">{}</p><p><a href=\"./\">Back to the fleet</a></p></main>",
        escape(why)
    );
    document("Refused", "", "", &main)
}

/// Returns the content while the fleet cannot be read.
pub(super) fn problem(why: &str) -> String {
    format!("<p class=\"problem\">The hub cannot be read now: {}</p>", escape(why))
}

/// Returns the fleet.
pub(super) fn content(shown: &Shown) -> String {
    let Shown {
        overview,
        clusters: has_clusters,
        explain_placements,
        change_rollouts,
        change_repositories,
        notes,
    } = shown;
    let mut html = String::new();
    html += "<section aria-labelledby=\"repositories\"><h2 id=\"repositories\">Repositories</h2>";
    if overview.repositories.is_empty() {
        html += "<p>No ConfigRepo drives this fleet yet.</p>";
    }
    for repository in &overview.repositories {
        self::repository(&mut html, repository, change_repositories.contains(&repository.name));
    }
    html += "</section>";
    let workloads = || overview.add_ons.iter().chain(&overview.replica_sets);
    let mut rollouts = Rollouts::new(workloads(), *change_rollouts);
    for (number, workload) in workloads().enumerate() {
        rollouts.write(&mut html, number, workload);
    }
    if *has_clusters {
        clusters(&mut html, &overview.clusters);
    }
    placements(&mut html, overview, *explain_placements);
    for note in notes {
        let _ = write!(html, "<p class=\"note\">{}</p>", escape(note));
    }
    html
}

fn repository(html: &mut String, repository: &Repository, has_buttons: bool) {
    let Repository {
        name,
        url,
        seen,
        applied,
        healthy,
        ready,
        reason,
        message,
        unanswered,
        suspended,
        held_deletions,
        held_plan: _,
        held_changes: _,
        history: _,
        objects,
        report,
        report_error,
        reports,
    } = repository;
    let (class, mark) = if *ready { ("good", '✓') } else { ("bad", '✗') };
    let _ = write!(
        html,
        "<article><h3><span class=\"{class}\" aria-hidden=\"true\">{mark}</span> {}</h3><p>{}: {}</p>\
         <dl><dt>Repository</dt><dd>{}</dd><dt>Applied</dt><dd><code>{}</code></dd>",
        escape(name),
        escape(reason),
        escape(message),
        escape(url),
        escape(short(applied))
    );
    if seen != applied && !seen.is_empty() {
        let _ = write!(html, "<dt>Fetched</dt><dd><code>{}</code></dd>", escape(short(seen)));
    }
    if healthy != applied && !healthy.is_empty() {
        let _ = write!(html, "<dt>Last healthy</dt><dd><code>{}</code></dd>", escape(short(healthy)));
    }
    if !report.is_empty() {
        let _ = write!(html, "<dt>Last report</dt><dd>{}</dd>", escape(report));
    }
    *html += "</dl>";
    self::reports(html, report_error, reports);
    if *suspended {
        *html += "<p class=\"hold\">It is suspended (spec.suspend).</p>";
    }
    if !unanswered.is_empty() {
        let _ = write!(html, "<p class=\"problem\">{}</p>", escape(unanswered));
    }
    if has_buttons {
        match suspended {
            true => button(html, "resume-repository", &format!("Resume {name}"), name, ""),
            false => button(html, "suspend-repository", &format!("Suspend {name}"), name, ""),
        }
    }
    if let Some(held) = held_deletions {
        self::held_deletions(html, name, held, has_buttons);
    }
    self::held_plan(html, repository, has_buttons);
    lists(html, objects);
    *html += "</article>";
}

/// Writes lists of objects below their headings.
fn lists(html: &mut String, lists: &[ObjectList]) {
    for ObjectList { what, objects, more } in lists {
        let _ = write!(html, "<h4>{}</h4>", escape(what));
        list(html, objects, *more);
    }
}

/// Shows the deletions that wait.
fn held_deletions(html: &mut String, name: &str, held: &HeldObjects, has_buttons: bool) {
    let _ = write!(html, "<p class=\"hold\">{}</p>", escape(&held.summary()));
    list(html, &held.objects, held.more);
    if has_buttons {
        button(html, "approve-deletions", &format!("Approve the deletions of {name}"), name, &held.approval);
    }
}

/// Shows the plan that waits for an approval, and what it does.
fn held_plan(html: &mut String, repository: &Repository, has_buttons: bool) {
    let Repository { name, seen, held_plan, held_changes, .. } = repository;
    if held_plan.is_empty() {
        return;
    }
    let commit = escape(short(seen));
    let _ = write!(
        html,
        "<p class=\"hold\">The plan of commit {commit} waits for the annotation <code>gitops.wheelwright.dev/approve-plan={}</code>. \
         In a clone, <code>wheelwright plan --hub KUBECONFIG --config-repo {} --head {commit}</code> shows it.</p>",
        escape(held_plan),
        escape(name)
    );
    lists(html, held_changes);
    if has_buttons {
        button(html, "approve-plan", &format!("Approve the plan of {name}"), name, held_plan);
    }
}

fn reports(html: &mut String, error: &str, reports: &[ReportSummary]) {
    if !error.is_empty() {
        let error = escape(error);
        let _ = write!(html, "<p class=\"problem\">The present state is not reported: {error}</p>");
    }
    if reports.is_empty() {
        return;
    }
    *html += "<h4>Reports</h4><ol class=\"reports\">";
    for report in reports {
        let ReportSummary { commit, time, summary } = report;
        let (commit, time, summary) = (escape(commit), escape(time), escape(summary));
        let _ =
            write!(html, "<li><time datetime=\"{time}\">{time}</time> <code>{commit}</code> {summary}</li>");
    }
    *html += "</ol>";
}

fn clusters(html: &mut String, clusters: &Clusters) {
    let Clusters { total, available, troubled } = clusters;
    let _ = write!(
        html,
        "<section aria-labelledby=\"clusters\"><h2 id=\"clusters\">Clusters</h2><p>{available} of {total} available</p>"
    );
    if !troubled.is_empty() {
        *html += "<table><thead><tr><th scope=\"col\">Cluster</th><th scope=\"col\">Problem</th></tr></thead><tbody>";
        for cluster in troubled.iter().take(SHOWN) {
            let _ = write!(
                html,
                "<tr><th scope=\"row\">{}</th><td>{}</td></tr>",
                cluster_link("", &cluster.name),
                escape(&cluster.message)
            );
        }
        *html += "</tbody></table>";
        if let Some(more) = troubled.len().checked_sub(SHOWN).filter(|more| *more > 0) {
            let _ = write!(html, "<p>and {more} more</p>");
        }
    }
    *html += "</section>";
}

fn placements(html: &mut String, overview: &Overview, has_reasons: bool) {
    *html += "<section aria-labelledby=\"placements\"><h2 id=\"placements\">Placements</h2><table><thead><tr>\
              <th scope=\"col\">Placement</th><th scope=\"col\">Clusters</th><th scope=\"col\">State</th></tr></thead><tbody>";
    for placement in &overview.placements {
        let (class, state) =
            if placement.satisfied { ("good", "satisfied") } else { ("bad", placement.message.as_str()) };
        let name = escape(&placement.name);
        let name = if has_reasons {
            format!("<a id=\"placement:{name}\" href=\"placement?of={name}\">{name}</a>")
        } else {
            name
        };
        let _ = write!(
            html,
            "<tr><th scope=\"row\">{name}</th><td>{}</td><td class=\"{class}\">{}</td></tr>",
            placement.selected,
            escape(state)
        );
    }
    *html += "</tbody></table></section>";
}

/// Returns the page about a cluster that does not exist, or of which the visitor may see nothing.
pub(super) fn no_cluster(name: &str) -> String {
    refused(&format!("There is no cluster {name} of which you may see something."))
}

/// Returns the page about a placement that does not exist.
pub(super) fn no_placement(name: &str) -> String {
    refused(&format!("There is no Placement {name}."))
}

fn short(commit: &str) -> &str {
    match short_commit(commit) {
        "" => "none",
        commit => commit,
    }
}
