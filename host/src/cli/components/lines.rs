//! Components for people.

use crate::output::{Line, Tone};
use crate::task::capabilities::{
    Difference, FieldChange, InspectDocument, Proposal, Said, Shown, WhyDocument,
};
use act_component::registry::{ComponentDocument, ComponentList, State};
use act_component::{Capability, Ceiling, Grant, LeftOut, Need, Party, Set};

const DIGEST: usize = 12;

pub(super) fn list(list: &ComponentList) -> Vec<Line> {
    list.components.iter().flat_map(one).collect()
}

/// Name, state, digest, kind; below it what it may do.
fn one(component: &ComponentDocument) -> Vec<Line> {
    let digest: String = component.sha256.chars().take(DIGEST).collect();
    let mut lines = vec![
        Line::of(Tone::Strong, format!("{:<16}", component.name))
            .and(tone(component.state), format!(" {:<10}", component.state.word()))
            .and(Tone::Plain, format!(" {digest}  {}", component.kind.word())),
    ];
    let mut about = vec![grants(&component.grants).join(", ")];
    about.extend(component.replaces.as_ref().map(|name| format!("replaces {name}")));
    match component.scope {
        "here" if component.state != State::Unapproved => about.push("here alone".to_owned()),
        "elsewhere" => about.push("in another repository alone".to_owned()),
        _ => {}
    }
    about.extend(component.last_used.as_ref().map(|time| format!("last used {time}")));
    if component.denials > 0 {
        about.push(format!("{} denials", component.denials));
    }
    lines.push(Line::of(Tone::Faint, format!("  {}", about.join("; "))));
    lines.extend(
        component.found.as_ref().map(|found| {
            Line::of(Tone::Bad, "  found: ").and(Tone::Plain, format!("sha256 {found}"))
        }),
    );
    lines
}

fn tone(state: State) -> Tone {
    match state {
        State::Builtin | State::Approved => Tone::Good,
        State::Unapproved | State::Revoked => Tone::Caution,
        State::Changed | State::Missing => Tone::Bad,
    }
}

/// Each grant in a few words; `nothing` where there is none.
pub(super) fn grants(grant: &Grant) -> Vec<String> {
    let words = in_words(grant);
    if words.is_empty() { vec!["nothing".to_owned()] } else { words }
}

fn in_words(grant: &Grant) -> Vec<String> {
    held(grant).into_iter().map(|(held, values)| words(held, &values)).collect()
}

fn words(held: Capability, values: &str) -> String {
    if values.is_empty() { held.name().to_owned() } else { format!("{} {values}", held.name()) }
}

/// Each grant, and what it is bounded to.
fn held(grant: &Grant) -> Vec<(Capability, String)> {
    let held = Capability::ALL.into_iter().filter(|one| grant.has(*one));
    held.map(|one| (one, values(one, grant).unwrap_or_default())).collect()
}

fn values(of: Capability, grant: &Grant) -> Option<String> {
    match of {
        Capability::RepoRead => match &grant.repo_read.as_ref()?.paths {
            Set::Any => None,
            Set::Only(parts) if parts.is_empty() => Some("of nothing".to_owned()),
            Set::Only(parts) => Some(format!("of {}", joined(parts.iter()))),
        },
        Capability::Llm => {
            let llm = grant.llm.as_ref()?;
            Some(format!("({} calls, {} tokens)", llm.calls, llm.tokens))
        }
        Capability::Http => {
            let http = grant.http.as_ref()?;
            let (methods, origins) = (joined(http.methods.values()), joined(http.origins.values()));
            Some(format!("({methods} to {origins})"))
        }
        Capability::Env => Some(joined(grant.env.values())),
        Capability::Clock => Some(format!("({:?})", grant.clock).to_lowercase()),
        Capability::RepoWrite | Capability::Random | Capability::Sockets => None,
    }
}

/// Each grant with what it means, for somebody who reads of it for the first time.
fn may(grant: &Grant) -> Vec<Line> {
    let line = |what: &str, means: &str| {
        Line::of(Tone::Strong, format!("  {what}")).and(Tone::Plain, format!(": {means}"))
    };
    let held = held(grant);
    if held.is_empty() {
        return vec![line("nothing", "has no right at all")];
    }
    held.iter().map(|(held, values)| line(&words(*held, values), meaning(*held))).collect()
}

fn meaning(of: Capability) -> &'static str {
    match of {
        Capability::RepoRead => "reads files of the repository, but no secrets and nothing hidden",
        Capability::RepoWrite => "changes files by way of act, but none that is protected",
        Capability::Llm => "asks your model; counted for each query",
        Capability::Http => "sends requests to these addresses; counted for each query",
        Capability::Env => "sees these variables, and no others",
        Capability::Clock => "sees the time",
        Capability::Random => "gets unpredictable numbers",
        Capability::Sockets => "opens connections of its own",
    }
}

fn joined<T: std::fmt::Display>(values: impl Iterator<Item = T>) -> String {
    values.map(|value| value.to_string()).collect::<Vec<_>>().join(" ")
}

fn row(name: &str, value: impl Into<String>) -> Line {
    Line::of(Tone::Faint, format!("  {name:<9} ")).and(Tone::Plain, value)
}

fn needs(needs: &[Need], sign: &str) -> Vec<Line> {
    let line = |need: &Need| {
        let mut what = need.grant.clone();
        for list in [
            joined(need.paths.iter()),
            joined(need.methods.iter()),
            joined(need.origins.iter()),
            joined(need.names.iter()),
        ] {
            if !list.is_empty() {
                what.push_str(&format!(" {list}"));
            }
        }
        Line::of(Tone::Strong, format!("  {sign}{what}"))
            .and(Tone::Plain, format!(": {}", need.why))
    };
    needs.iter().map(line).collect()
}

pub(super) fn inspected(document: &InspectDocument) -> Vec<Line> {
    let mut lines = vec![
        Line::of(Tone::Strong, &document.name)
            .and(Tone::Plain, format!(" {}: {}", document.version, document.about)),
        row("sha256", &document.sha256),
        row("bytes", document.bytes.to_string()),
        row("world", &document.world),
    ];
    lines.extend(imports(&document.imports));
    lines.push(Line::plain(if document.needs.is_empty() { "Needs nothing" } else { "Needs" }));
    lines.extend(needs(&document.needs, ""));
    lines.extend(says(&document.says));
    lines.extend(left_out(&document.left_out));
    lines.extend(
        document
            .problem
            .as_ref()
            .map(|problem| Line::of(Tone::Bad, "Cannot be loaded: ").and(Tone::Plain, problem)),
    );
    lines
}

/// Base WASI comes with every guest's standard library and says nothing.
fn imports(imports: &[String]) -> Vec<Line> {
    let base = ["wasi:io/", "wasi:cli/", "wasi:clocks/", "wasi:random/", "wasi:filesystem/"];
    let (plain, told): (Vec<_>, Vec<_>) =
        imports.iter().partition(|import| base.iter().any(|base| import.starts_with(base)));
    let mut lines: Vec<_> = told.iter().map(|import| row("imports", import.as_str())).collect();
    if !plain.is_empty() {
        lines.push(row("imports", format!("base WASI ({} interfaces)", plain.len())));
    }
    lines
}

fn left_out(functions: &[LeftOut]) -> impl Iterator<Item = Line> {
    functions.iter().map(|one| row("left out", format!("{}: {}", one.function, one.why)))
}

pub(super) fn proposed(proposal: &Proposal) -> Vec<Line> {
    let inspection = &proposal.inspection;
    let manifest = &inspection.manifest;
    let mut lines = vec![
        Line::of(Tone::Strong, proposal.name.as_str()).and(
            Tone::Plain,
            format!(": {} {}, {}", manifest.name, manifest.version, manifest.about),
        ),
        row("sha256", &inspection.sha256),
        row("bytes", inspection.bytes.len().to_string()),
        row("world", manifest.world()),
    ];
    lines.extend(imports(&inspection.imports));
    lines.extend(left_out(&manifest.left_out));
    lines.push(Line::plain(if manifest.needs.is_empty() { "Needs nothing" } else { "Needs" }));
    lines.extend(needs(&manifest.needs, ""));
    lines.extend(says(&proposal.says()));
    lines.push(row("granted", grants(&proposal.grant).join(", ")));
    if !proposal.grant.withheld.is_empty() {
        lines.push(row("withheld", joined(proposal.grant.withheld.iter())));
    }
    lines.extend(taken_away(&proposal.narrowed));
    let limits = &proposal.grant.limits;
    let (memory, wall) = (bytes(limits.memory_bytes), limits.wall.as_secs());
    lines.push(row("limits", format!("{memory}, {wall} s for one query")));
    lines.extend(proposal.replaces.as_ref().map(|name| {
        Line::of(Tone::Caution, format!("  It takes the place of the built-in {name}"))
    }));
    lines.push(row(
        "holds",
        if proposal.is_local() { "in this repository" } else { "in every repository" },
    ));
    lines.extend(proposal.difference.as_ref().into_iter().flat_map(differs));
    lines
}

fn differs(difference: &Difference) -> Vec<Line> {
    let version = difference.version_before.as_ref().map(|version| format!(" ({version})"));
    let title = format!("Differs from sha256 {}{}", difference.before, version.unwrap_or_default());
    if difference.is_nothing() {
        return vec![Line::plain("  It is what was approved before, and on the same terms")];
    }
    let mut lines = vec![Line::of(Tone::Caution, title)];
    lines.push(Line::plain(match (difference.unknown, difference.code_changed) {
        (true, _) => "  those bytes are not in the store any more",
        (false, true) => "  in its code, which nobody can read here",
        (false, false) => "  not in its code",
    }));
    let import =
        |sign: &'static str| move |name: &String| Line::plain(format!("  {sign} imports {name}"));
    lines.extend(difference.imports_added.iter().map(import("+")));
    lines.extend(difference.imports_removed.iter().map(import("-")));
    lines.extend(needs(&difference.needs_added, "+ needs "));
    lines.extend(needs(&difference.needs_removed, "- needs "));
    lines.extend(difference.manifest.iter().flat_map(|change| changed("says", change)));
    lines.extend(difference.approval.iter().flat_map(|change| changed("may", change)));
    lines
}

fn changed(what: &str, change: &FieldChange) -> Vec<Line> {
    let line = |sign: &str, text: &String| {
        let field = &change.field;
        Line::of(Tone::Strong, format!("  {sign} {what} {field}: ")).and(Tone::Plain, text)
    };
    let before = change.before.as_ref().map(|text| line("-", text));
    before.into_iter().chain(change.after.as_ref().map(|text| line("+", text))).collect()
}

/// Every word that reaches the Editor's model.
fn says(said: &Said) -> Vec<Line> {
    let mut lines = vec![];
    for tool in &said.tools {
        lines.push(
            Line::of(Tone::Strong, format!("  tool {}", tool.name))
                .and(Tone::Plain, format!(": {}", tool.description)),
        );
        lines.push(row("takes", tool.parameters.to_string()));
    }
    lines.extend(said.report.as_ref().map(|report| row("report", report.to_string())));
    if !lines.is_empty() {
        lines.insert(0, Line::plain("Says to the model"));
    }
    lines
}

/// For whatever bytes come under the name.
fn taken_away(narrowed: &Ceiling) -> Vec<Line> {
    if narrowed.is_nothing() {
        return vec![];
    }
    let bounds = narrowed.bounds();
    let mut words: Vec<_> = narrowed.withheld.iter().map(|name| format!("no {name}")).collect();
    if bounds != Grant::default() {
        words.extend(in_words(&bounds).iter().map(|word| format!("at most {word}")));
    }
    if bounds.limits != Grant::default().limits {
        words.push("lower limits".to_owned());
    }
    vec![row("narrowed", format!("{}; `approve --anew` gives it back", words.join(", ")))]
}

/// Whole units where there are any.
fn bytes(bytes: u64) -> String {
    match bytes {
        0..1024 => format!("{bytes} bytes"),
        1024..1_048_576 => format!("{} KiB", bytes >> 10),
        _ => format!("{} MiB", bytes >> 20),
    }
}

pub(super) fn shown(shown: &Shown) -> Vec<Line> {
    let component = &shown.component;
    let mut lines = one(component);
    lines.extend(component.about.as_ref().map(|about| Line::plain(format!("  {about}"))));
    lines.push(row("sha256", &component.sha256));
    lines.push(row("world", &component.world));
    lines.extend(imports(&component.imports));
    lines.push(Line::plain(if component.needs.is_empty() { "Needs nothing" } else { "Needs" }));
    lines.extend(needs(&component.needs, ""));
    if !component.tools.is_empty() {
        lines.push(row("tools", component.tools.join(" ")));
    }
    lines.extend(shown.says.iter().flat_map(says));
    lines.push(Line::plain(match (&component.approved_at, component.state) {
        (Some(time), _) => format!("Granted by you, {time}"),
        (None, State::Builtin) => "Granted because it is a part of act".to_owned(),
        (None, _) => "Granted".to_owned(),
    }));
    lines.extend(may(&component.grants));
    lines.extend(taken_away(&component.narrowed));
    match &shown.effective {
        Some(effective) => {
            if grants(effective) != grants(&component.grants) {
                let why = "In force: what it also needs, and policy.toml allows";
                lines.push(Line::plain(why));
                lines.extend(may(effective));
            }
            let limits = &effective.limits;
            let (memory, wall) = (bytes(limits.memory_bytes), limits.wall.as_millis());
            lines.push(row("limits", format!("{memory} of memory, {wall} ms for one query")));
        }
        None => lines.push(Line::of(Tone::Caution, "In force: nothing, it cannot be loaded")),
    }
    let used = &shown.used;
    lines.push(Line::plain("Used in the last 20 tasks"));
    if used.queries == 0 {
        lines.push(Line::plain("  it was not asked"));
    } else {
        lines.push(row("queries", format!("{} in {} tasks", used.queries, used.tasks)));
        lines.push(row("used", used.grants.join(", ")));
        let parts = used.parts.as_ref().map(|parts| parts.join(" "));
        lines.extend(parts.filter(|parts| !parts.is_empty()).map(|parts| row("read in", parts)));
        for (name, list) in [("asked", &used.origins), ("variables", &used.env)] {
            if !list.is_empty() {
                lines.push(row(name, list.join(" ")));
            }
        }
        let (calls, tokens) = (used.most_calls, used.most_tokens);
        lines.push(row("at most", format!("{calls} calls and {tokens} tokens in one query")));
        lines.push(row("denials", used.denials.to_string()));
    }
    if !shown.never_used.is_empty() {
        lines.push(
            Line::of(Tone::Caution, "Never used: ").and(Tone::Plain, shown.never_used.join(", ")),
        );
    }
    lines.extend(
        shown.can_be_narrowed_with.as_ref().map(|command| {
            Line::of(Tone::Strong, "Can be narrowed with: ").and(Tone::Plain, command)
        }),
    );
    lines
}

pub(super) fn answered(answer: &WhyDocument) -> Vec<Line> {
    let (tone, word) = if answer.allowed { (Tone::Good, "yes") } else { (Tone::Bad, "no") };
    let mut lines = vec![
        Line::of(tone, word).and(Tone::Plain, format!(": {}, {}", answer.name, answer.object)),
    ];
    for says in &answer.parties {
        let (tone, word) = if says.allows { (Tone::Good, "yes") } else { (Tone::Bad, "no ") };
        lines.push(Line::of(tone, format!("  {word} ")).and(Tone::Plain, party(says.party)));
    }
    lines.extend(answer.carved_out.as_ref().map(|rule| {
        let text = format!("the host, for every component ({})", rule.replace('_', " "));
        Line::of(Tone::Bad, "  no  ").and(Tone::Plain, text)
    }));
    lines
}

fn party(party: Party) -> &'static str {
    match party {
        Party::Imports => "imports: what the component can ask for at all",
        Party::Needs => "needs: what its manifest declares",
        Party::Grants => "grants: what you granted to these bytes",
        Party::Ceiling => "ceiling: what the administrator's policy.toml allows",
    }
}
