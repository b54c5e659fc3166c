//! What an earlier approval of a name leaves to the next one: whatever the user took away stays away (pure).

use crate::component::{Capability, Grant, Need};

/// `usual` is what the needs of the new bytes ask for, `earlier` what the old ones held and `asked` what their needs
/// had asked for; none where that is not known any more, and then nothing is given back.
pub(super) fn narrowed(
    mut usual: Grant,
    needs: &[Need],
    earlier: &Grant,
    asked: Option<&Grant>,
) -> Grant {
    for capability in Capability::ALL {
        let needed = needs.iter().any(|need| need.grant == capability.name());
        if needed && earlier.withheld.contains(capability.name()) {
            capability.close(&mut usual);
            usual.withheld.insert(capability.name().to_owned());
        }
    }
    let both = usual.meet(earlier);
    let narrower =
        |part: fn(&Grant) -> String| asked.is_none_or(|asked| part(earlier) != part(asked));
    if usual.repo_read.is_some() && earlier.repo_read.is_some() && narrower(|g| said(&g.repo_read))
    {
        usual.repo_read = both.repo_read;
    }
    if usual.llm.is_some() && earlier.llm.is_some() && narrower(|g| said(&g.llm)) {
        usual.llm = both.llm;
    }
    if usual.http.is_some() && earlier.http.is_some() && narrower(|g| said(&g.http)) {
        usual.http = both.http;
    }
    if !usual.env.is_empty() && !earlier.env.is_empty() && narrower(|g| said(&g.env)) {
        usual.env = both.env;
    }
    if narrower(|g| said(&g.limits)) {
        usual.limits = both.limits;
    }
    usual
}

fn said(part: &impl serde::Serialize) -> String {
    serde_json::to_string(part).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::component::{Limits, usual};

    fn need(grant: &str, paths: &[&str]) -> Need {
        serde_json::from_value(serde_json::json!({"grant": grant, "why": "x", "paths": paths}))
            .unwrap()
    }

    // CAPABILITY-44
    #[test]
    fn what_was_taken_away_stays_away_and_what_is_new_is_given() {
        let needs = [need("repo.read", &[]), need("llm", &[])];
        let asked = usual(&needs, Limits::default());
        let mut earlier = asked.clone();
        Capability::Llm.close(&mut earlier);
        earlier.withheld.insert("llm".to_owned());
        earlier.repo_read.as_mut().unwrap().paths = ["src".parse().unwrap()].into_iter().collect();
        earlier.limits.memory_bytes = 1 << 20;
        let more = [need("repo.read", &[]), need("llm", &[]), need("random", &[])];
        let new = usual(&more, Limits::default());
        for asked in [Some(&asked), None] {
            let kept = narrowed(new.clone(), &more, &earlier, asked);
            assert!(kept.llm.is_none() && kept.withheld.contains("llm"));
            let read = kept.repo_read.as_ref().unwrap();
            assert!(read.covers("src/a") && !read.covers("docs"));
            assert_eq!(kept.limits.memory_bytes, 1 << 20);
            assert!(kept.has(Capability::Random), "it is new, and shown as such");
        }
        // Nothing was taken away: new needs are met in full.
        let wider = [need("repo.read", &["src", "docs"])];
        let before = usual(&[need("repo.read", &["src"])], Limits::default());
        let new = usual(&wider, Limits::default());
        assert_eq!(narrowed(new.clone(), &wider, &before, Some(&before)), new);
    }
}
