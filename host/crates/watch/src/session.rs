//! Tokens, which work once, and the sessions that they open.
//!
//! Both are random, and the server holds only their SHA-256, so that the time of a comparison says nothing about them. They
//! end with the process.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD as BASE64;
use rand::RngExt;
use sha2::{Digest, Sha256};

/// Bytes of a token: 128 bits cannot be guessed within its minute.
const TOKEN: usize = 16;
/// Bytes of the value of a cookie, which lives for hours.
const SESSION: usize = 32;
/// Maximum number of tokens that wait to be used; an older one is dropped.
const MAX_TOKENS: usize = 16;
/// Maximum number of sessions; the oldest is closed.
const MAX_SESSIONS: usize = 32;

/// Returns random bytes as text for an address.
pub(crate) fn random<const N: usize>() -> String {
    let mut bytes = [0_u8; N];
    rand::rng().fill(&mut bytes[..]);
    BASE64.encode(bytes)
}

type Hash = [u8; 32];

fn hash(text: &str) -> Hash {
    Sha256::digest(text.as_bytes()).into()
}

/// The tokens and sessions of one server.
pub(crate) struct Sessions {
    life: Duration,
    inner: Mutex<Inner>,
    /// The form token of those who need no session, at the socket.
    socket_form: String,
}

#[derive(Default)]
struct Inner {
    tokens: VecDeque<(Hash, Instant)>,
    sessions: BTreeMap<Hash, Session>,
    opened: u64,
}

#[derive(Clone)]
struct Session {
    /// The order in which the sessions were opened.
    number: u64,
    form: String,
}

/// A request that may be answered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Admitted {
    /// The session; `None` at the socket.
    pub(crate) number: Option<u64>,
    /// The token that a form of this session must send back.
    pub(crate) form: String,
}

impl Sessions {
    /// `life` is how long a token waits to be used.
    pub(crate) fn new(life: Duration) -> Self {
        Self { life, inner: Mutex::default(), socket_form: random::<TOKEN>() }
    }

    /// Returns a new token.
    pub(crate) fn token(&self) -> String {
        let token = random::<TOKEN>();
        let mut inner = self.lock();
        inner.tokens.push_back((hash(&token), Instant::now()));
        if inner.tokens.len() > MAX_TOKENS {
            inner.tokens.pop_front();
        }
        token
    }

    /// Uses a token up. Returns the value of the cookie, or `None` where the token is unknown, used or too old.
    pub(crate) fn enter(&self, token: &str) -> Option<String> {
        let wanted = hash(token);
        let mut inner = self.lock();
        inner.tokens.retain(|(_, made)| made.elapsed() < self.life);
        let place = inner.tokens.iter().position(|(known, _)| *known == wanted)?;
        inner.tokens.remove(place);
        let cookie = random::<SESSION>();
        inner.opened += 1;
        let session = Session { number: inner.opened, form: random::<TOKEN>() };
        inner.sessions.insert(hash(&cookie), session);
        if inner.sessions.len() > MAX_SESSIONS {
            let oldest = inner.sessions.iter().min_by_key(|(_, session)| session.number);
            let oldest = oldest.map(|(key, _)| *key);
            if let Some(key) = oldest {
                inner.sessions.remove(&key);
            }
        }
        Some(cookie)
    }

    /// Returns the session of a cookie.
    pub(crate) fn of_cookie(&self, cookie: &str) -> Option<Admitted> {
        let session = self.lock().sessions.get(&hash(cookie)).cloned()?;
        Some(Admitted { number: Some(session.number), form: session.form })
    }

    /// Returns the session of all peers at the socket, who have passed the check of the user id.
    pub(crate) fn of_socket(&self) -> Admitted {
        Admitted { number: None, form: self.socket_form.clone() }
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Admitted {
    /// Returns whether a form sent the token of this session back.
    pub(crate) fn owns(&self, form: &str) -> bool {
        hash(form) == hash(&self.form)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // attack 602
    #[test]
    fn a_token_has_128_bits_works_once_and_dies() {
        let sessions = Sessions::new(Duration::from_millis(30));
        let token = sessions.token();
        assert_eq!(BASE64.decode(&token).unwrap().len() * 8, 128);
        assert_eq!(sessions.enter("x"), None);
        let cookie = sessions.enter(&token).unwrap();
        assert_eq!(sessions.enter(&token), None, "it was used");
        assert!(sessions.of_cookie(&cookie).is_some());
        assert_eq!(sessions.of_cookie(&token), None);
        let late = sessions.token();
        std::thread::sleep(Duration::from_millis(40));
        assert_eq!(sessions.enter(&late), None, "it is too old");
        assert!(sessions.of_cookie(&cookie).is_some(), "a session outlives its token");
    }

    #[test]
    fn tokens_and_sessions_are_bounded_and_each_session_has_a_form_token_of_its_own() {
        let sessions = Sessions::new(Duration::from_secs(60));
        let first = sessions.token();
        let others: Vec<_> = (0..MAX_TOKENS).map(|_| sessions.token()).collect();
        assert_eq!(sessions.enter(&first), None);
        let cookies: Vec<_> = others.iter().filter_map(|token| sessions.enter(token)).collect();
        assert_eq!(cookies.len(), MAX_TOKENS);
        let admitted = |cookie: &String| sessions.of_cookie(cookie).unwrap();
        let (one, two) = (admitted(&cookies[0]), admitted(&cookies[1]));
        assert!(one.owns(&one.form) && !one.owns(&two.form) && !one.owns(""));
        for _ in 0..MAX_SESSIONS {
            sessions.enter(&sessions.token()).unwrap();
        }
        assert_eq!(sessions.of_cookie(&cookies[0]), None);
        assert_eq!(sessions.lock().sessions.len(), MAX_SESSIONS);
    }
}
