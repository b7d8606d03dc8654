//! Builds a provider's credential form from the document's security schemes.

use std::collections::{BTreeMap, BTreeSet};

use url::Url;
use windlass::Text;
use windlass::definition::{CredentialField, CredentialKind};

use super::auth::{Auth, Way};
use crate::rest::document::{Api, Operation, Scheme, SchemeKind};
use crate::rest::plan::{Credential, Location, OAuth2Flow};
use crate::rest::schema::brief;

/// The fields by scheme; only schemes that some tool uses are asked for.
pub(super) struct Forms {
    schemes: BTreeMap<String, (String, Scheme)>,
    used: BTreeSet<String>,
    /// Header parameters that hold credentials.
    headers: BTreeSet<String>,
    /// Whether some tool works without credentials.
    optional: bool,
    /// The authentication set in the import options, in place of the document's.
    told: Option<Told>,
}

/// Authentication for all operations.
enum Told {
    Nothing,
    /// By this scheme.
    Scheme(String),
}

impl Forms {
    pub(super) fn of(api: &Api<'_>, auth: Option<&Auth>) -> Self {
        let mut told = match auth.map(|auth| &auth.0) {
            None => None,
            Some(Way::Scheme(name)) => Some(Told::Scheme(name.clone())),
            Some(_) => Some(Told::Nothing),
        };
        let mut taken = BTreeSet::new();
        let schemes = api.schemes.iter().map(|(name, scheme)| {
            let mut field = field_name(name);
            while !taken.insert(field.clone()) {
                field.push('_');
            }
            (name.clone(), (field, scheme.clone()))
        });
        let mut schemes: BTreeMap<String, (String, Scheme)> = schemes.collect();
        if let Some((field, scheme)) = auth.and_then(Auth::scheme) {
            // A name that no scheme of a document can have.
            let name = "\0";
            schemes.insert(name.to_owned(), (field.to_owned(), scheme));
            told = Some(Told::Scheme(name.to_owned()));
        }
        Self { schemes, told, used: BTreeSet::new(), headers: BTreeSet::new(), optional: false }
    }

    /// The authentication alternatives of an operation. Unsupported ones are reported and
    /// skipped; if none is left, the operation cannot be called.
    pub(super) fn ways(
        &mut self,
        operation: &Operation<'_>,
        beside: &Addresses<'_>,
        notes: &mut Vec<String>,
    ) -> Result<Vec<Vec<Credential>>, String> {
        match &self.told {
            None => {}
            Some(Told::Nothing) => {
                self.optional = true;
                return Ok(Vec::new());
            }
            Some(Told::Scheme(name)) => {
                let name = name.clone();
                let scopes = operation.security.iter().flatten().find(|(own, _)| *own == name);
                let scopes = scopes.map(|(_, scopes)| scopes.clone()).unwrap_or_default();
                let one = self.credential(&name, &scopes, beside, notes);
                return one.map(|one| vec![vec![one]]).map_err(Missing::why);
            }
        }
        let mut ways = Vec::new();
        let mut impossible = None;
        for way in &operation.security {
            let one = |(name, scopes): &(String, Vec<String>)| {
                self.credential(name, scopes, beside, notes)
            };
            let all: Result<Vec<Credential>, Missing> = way.iter().map(one).collect();
            match all {
                Ok(all) => ways.push(all),
                // The API may still respond without.
                Err(Missing::Undescribed(why)) => notes.push(why),
                Err(Missing::Unsupported(why)) => {
                    notes.push(why.clone());
                    impossible = Some(why);
                }
            }
        }
        if let (Some(why), true) = (impossible, ways.is_empty()) {
            return Err(why);
        }
        Ok(ways)
    }

    /// Whether the import options set the authentication.
    pub(super) fn is_told(&self) -> bool {
        self.told.is_some()
    }

    /// A warning if the document declares schemes that no imported operation requires.
    pub(super) fn unused(&self) -> Option<String> {
        let none = self.told.is_none() && self.used.is_empty() && self.headers.is_empty();
        let usable = |scheme: &Scheme| !matches!(scheme.kind, SchemeKind::Unsupported(_));
        let names: Vec<String> = (self.schemes.iter())
            .filter(|(_, (_, scheme))| none && usable(scheme))
            .map(|(name, _)| format!("`scheme:{}`", brief(name, 80)))
            .collect();
        (!names.is_empty()).then(|| {
            format!(
                "the document declares how to say who asks, and requires it nowhere; where the \
                 API wants it, set `auth` to {}",
                names.join(" or ")
            )
        })
    }

    /// The scheme whose key is this parameter.
    pub(super) fn key(&self, place: Location, name: &str) -> Option<String> {
        let same = |own: &str| match place {
            Location::Header => own.eq_ignore_ascii_case(name),
            _ => own == name,
        };
        let is_key = |scheme: &Scheme| matches!(&scheme.kind, SchemeKind::ApiKey { place: own, name } if *own == place && same(name));
        let (name, _) = self.schemes.iter().find(|(_, (_, scheme))| is_key(scheme))?;
        Some(name.clone())
    }

    /// Adds keys that an operation takes as parameters to its alternatives, unless they
    /// contain them already. An optional key is sent if it is set.
    pub(super) fn with_keys(
        &mut self,
        mut ways: Vec<Vec<Credential>>,
        keys: Vec<(String, bool)>,
    ) -> Vec<Vec<Credential>> {
        for (scheme, required) in keys {
            let Some((field, Scheme { kind: SchemeKind::ApiKey { place, name }, .. })) =
                self.schemes.get(&scheme)
            else {
                continue;
            };
            let key =
                Credential::ApiKey { field: field.clone(), location: *place, name: name.clone() };
            let sends = |one: &Credential| match one {
                Credential::ApiKey { location, name: own, .. } => location == place && own == name,
                _ => false,
            };
            if ways.iter().flatten().any(sends) {
                continue;
            }
            self.used.insert(scheme);
            if ways.is_empty() {
                ways.push(Vec::new());
            }
            let with = ways.iter().map(|way| [way.as_slice(), std::slice::from_ref(&key)].concat());
            let mut with: Vec<Vec<Credential>> = with.collect();
            if !required {
                with.append(&mut ways);
            }
            ways = with;
        }
        self.optional |= ways.is_empty() || ways.iter().any(Vec::is_empty);
        ways
    }

    /// A header such as `Authorization` that an operation takes as a parameter: it
    /// becomes a credential, not an argument.
    pub(super) fn header(&mut self, name: &str) -> Credential {
        self.headers.insert(name.to_owned());
        let field = field_name(name);
        Credential::ApiKey { field, location: Location::Header, name: name.to_owned() }
    }

    fn credential(
        &mut self,
        name: &str,
        scopes: &[String],
        beside: &Addresses<'_>,
        notes: &mut Vec<String>,
    ) -> Result<Credential, Missing> {
        let (field, scheme) = self.schemes.get(name).ok_or_else(|| {
            Missing::Undescribed(format!("the security scheme `{name}` is not described"))
        })?;
        let field = field.clone();
        let credential = match &scheme.kind {
            SchemeKind::ApiKey { place, name } => {
                Credential::ApiKey { field, location: *place, name: name.clone() }
            }
            SchemeKind::Bearer => Credential::Bearer { field },
            SchemeKind::Basic => Credential::Basic {
                username: part(&field, "username"),
                password: part(&field, "password"),
            },
            SchemeKind::OAuth2(flow) => Credential::OAuth2 {
                flow: flow.as_ref().map(|flow| OAuth2Flow {
                    client_id: format!("{field}_client_id"),
                    client_secret: format!("{field}_client_secret"),
                    token_url: beside.whole(&flow.token_url, notes),
                    authorization_url: (flow.authorization_url.as_ref())
                        .map(|url| beside.whole(url, notes)),
                    refresh_url: flow.refresh_url.as_ref().map(|url| beside.whole(url, notes)),
                }),
                scopes: scopes.to_vec(),
                field,
            },
            SchemeKind::Unsupported(what) => {
                return Err(Missing::Unsupported(format!("{what} (`{name}`) is not supported")));
            }
        };
        self.used.insert(name.to_owned());
        Ok(credential)
    }

    /// The fields of the form.
    pub(super) fn fields(&self) -> Vec<CredentialField> {
        let mut fields: Vec<CredentialField> = Vec::new();
        // A single scheme that all tools need is required; one of several is optional.
        let sole = self.used.len() + self.headers.len() == 1 && !self.optional;
        for name in &self.used {
            let Some((field, scheme)) = self.schemes.get(name) else { continue };
            fields.extend(fields_of(field, scheme, sole));
        }
        for name in &self.headers {
            let label = Label { en: name, zh: name };
            fields.push(label.field(field_name(name), CredentialKind::SecretInput, sole, ""));
        }
        fields
    }
}

/// Base URLs for the relative URLs in a document.
pub(super) struct Addresses<'a> {
    /// Of the operation.
    pub(super) base: Option<Url>,
    /// Of the document.
    pub(super) document: Option<&'a Url>,
}

impl Addresses<'_> {
    /// Resolves a URL; without a base it stays as written.
    fn whole(&self, written: &str, notes: &mut Vec<String>) -> String {
        if Url::parse(written).is_ok() {
            return written.to_owned();
        }
        let beside = self.base.as_ref().or(self.document);
        match beside.and_then(|beside| beside.join(written).ok()) {
            Some(url) => url.into(),
            None => {
                let shown = brief(written, 80);
                notes.push(format!("nothing says what the address `{shown}` is relative to"));
                written.to_owned()
            }
        }
    }
}

/// Why a scheme cannot be used.
enum Missing {
    /// The document does not describe it.
    Undescribed(String),
    Unsupported(String),
}

impl Missing {
    fn why(self) -> String {
        match self {
            Self::Undescribed(why) | Self::Unsupported(why) => why,
        }
    }
}

/// The name of one of several fields of a scheme.
fn part(field: &str, suffix: &str) -> String {
    if field.is_empty() { suffix.to_owned() } else { format!("{field}_{suffix}") }
}

/// The label of a field in both languages.
struct Label<'a> {
    en: &'a str,
    zh: &'a str,
}

impl Label<'_> {
    fn field(
        &self,
        name: String,
        kind: CredentialKind,
        required: bool,
        help: &str,
    ) -> CredentialField {
        let help = brief(help, 300);
        CredentialField {
            name,
            label: Some(Text::both(self.en, self.zh)),
            kind,
            required,
            help: (!help.is_empty()).then(|| help.into()),
            ..CredentialField::default()
        }
    }
}

fn fields_of(field: &str, scheme: &Scheme, sole: bool) -> Vec<CredentialField> {
    use CredentialKind::{SecretInput, TextInput};
    let help = scheme.description.as_str();
    let own = |suffix: &str| part(field, suffix);
    match &scheme.kind {
        SchemeKind::ApiKey { name: key, .. } => {
            let (en, zh) = (format!("API key ({key})"), format!("API 密钥 ({key})"));
            vec![Label { en: &en, zh: &zh }.field(field.to_owned(), SecretInput, sole, help)]
        }
        SchemeKind::Bearer => {
            vec![Label { en: "Access token", zh: "访问令牌" }.field(
                field.to_owned(),
                SecretInput,
                sole,
                help,
            )]
        }
        SchemeKind::Basic => vec![
            Label { en: "User name", zh: "用户名" }.field(own("username"), TextInput, sole, help),
            Label { en: "Password", zh: "密码" }.field(own("password"), SecretInput, false, ""),
        ],
        SchemeKind::OAuth2(flow) => {
            let mut fields = Vec::new();
            if flow.is_some() {
                fields.push(Label { en: "Client id", zh: "客户端 ID" }.field(
                    own("client_id"),
                    TextInput,
                    false,
                    help,
                ));
                fields.push(Label { en: "Client secret", zh: "客户端密钥" }.field(
                    own("client_secret"),
                    SecretInput,
                    false,
                    "",
                ));
            }
            let only = sole && flow.is_none();
            let token = Label { en: "Access token", zh: "访问令牌" };
            let help = if flow.is_some() { "In place of the client id and secret" } else { help };
            fields.push(token.field(field.to_owned(), SecretInput, only, help));
            fields
        }
        SchemeKind::Unsupported(_) => Vec::new(),
    }
}

/// The name of a field: lower case, digits and `_`.
fn field_name(name: &str) -> String {
    let mut field = String::new();
    for c in name.chars() {
        match c {
            c if c.is_ascii_alphanumeric() => field.push(c.to_ascii_lowercase()),
            _ if field.ends_with('_') || field.is_empty() => {}
            _ => field.push('_'),
        }
    }
    let field = field.trim_end_matches('_');
    if field.is_empty() { "token".to_owned() } else { field.to_owned() }
}
