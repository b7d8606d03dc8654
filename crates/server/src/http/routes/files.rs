//! Files: truncated results in full, and uploads; with signed links that need no key
//! and expire.

use std::sync::Arc;
use std::time::Duration;

use axum::extract::{Request, State};
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use hmac::{Hmac, KeyInit, Mac};
use jiff::Timestamp;
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;
use sha2::Sha256;
use windlass::{CallId, Error, ErrorKind, TenantId};
use windlass_store::{Document, Documents, Expect, Put};

use super::audit::Performed;
use super::context::DurationBody;
use super::page::{AfterId, PageQuery};
use super::view;
use crate::http::app::App;
use crate::http::document::operation::RouteSpec;
use crate::http::document::shape;
use crate::http::front::extract::{Authenticated, JsonBody, PathName, QueryString, whole};
use crate::http::front::problem::Problem;
use crate::random;
use crate::state::identity::Permission;
use crate::state::quota::NewResource;

/// What is known of a file.
const SPACE: &str = crate::state::quota::FILES;
/// Where the key of links is kept, for all servers.
const SERVER: &str = "server";
const LINK_KEY: &str = "link_key";
/// How long it is known what a file is called; files themselves go, the oldest
/// first, as results do.
const LIFE: Duration = Duration::from_secs(365 * 24 * 3600);
/// The default lifetime of a link.
const LINK_LIFE: Duration = Duration::from_secs(3600);
const MAX_LINK_LIFE: Duration = Duration::from_secs(30 * 24 * 3600);
/// The most that one answer holds.
const MAX_PART: u64 = 64 * 1024 * 1024;
/// Media types that a browser may show without running anything.
const HARMLESS: [&str; 8] = [
    "text/plain",
    "application/json",
    "image/png",
    "image/jpeg",
    "image/gif",
    "image/webp",
    "audio/mpeg",
    "application/pdf",
];

pub(crate) fn rows() -> Vec<RouteSpec> {
    let part = "`bytes=0-99` or `bytes=-100`: a part of the file";
    vec![
        RouteSpec::post("/v1/files", "upload_file", upload)
            .may(Permission::CallTools, "Upload a file")
            .details(
                "The body is the file; its Content-Type is kept. Files and truncated results \
                 share a storage limit: the oldest are deleted first.",
            )
            .header("X-File-Name", "", "the name of the file")
            .bytes()
            .answer::<FileDoc>(201, "The file"),
        RouteSpec::get("/v1/files", "list_files", list)
            .may(Permission::ReadCalls, "List the files that were uploaded, oldest first")
            .query::<PageQuery<AfterId>>()
            .answer::<FilesDoc>(200, "The files"),
        RouteSpec::delete("/v1/files/{file_id}", "delete_file", delete)
            .may(Permission::CallTools, "Delete an uploaded file; links to it stop working")
            .details("Only the key that uploaded it and admins may delete it.")
            .answer_as(204, "Deleted", "", None),
        RouteSpec::get("/v1/files/{file_id}", "get_file", get)
            .may(Permission::ReadCalls, "Get a file, or a truncated result in full")
            .details("The id of a result's file is the `handle` that the result gives.")
            .header("Range", "", part)
            .answer_as(200, "The file", "application/octet-stream", None)
            .answer_as(206, "The requested range", "application/octet-stream", None)
            .problem(416, "The range is outside of the file"),
        RouteSpec::post("/v1/files/{file_id}/link", "link_file", link)
            .may(
                Permission::CallTools,
                "Create a signed link to a file, which needs no key and expires",
            )
            .body::<LinkBody>()
            .example(|| json!({"expires_in": "10m"}))
            .answer::<LinkDoc>(200, "The link"),
        RouteSpec::get("/v1/files/{file_id}/content", "get_linked_file", linked)
            .open("Get a file by a signed link")
            .query::<LinkQuery>()
            .answer_as(200, "The file", "application/octet-stream", None)
            .answer_as(206, "The requested range", "application/octet-stream", None)
            .problem(416, "The range is outside of the file")
            .problems(),
    ]
}

/// A file.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "File")]
struct FileDoc {
    #[schemars(schema_with = "shape::id")]
    id: String,
    /// Its size in bytes.
    size: u64,
    /// Its media type.
    media_type: String,
    /// The name of the file.
    name: Option<String>,
    /// The id of the key that uploaded it.
    owner: Option<String>,
    #[schemars(schema_with = "shape::time")]
    created_at: String,
}

/// A page of files.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "FilePage")]
struct FilesDoc {
    files: Vec<FileDoc>,
    /// The cursor of the next page; none on the last page.
    next: Option<String>,
}

async fn list(
    State(app): State<Arc<App>>,
    Authenticated(who): Authenticated,
    QueryString(query): QueryString<PageQuery<AfterId>>,
) -> Result<Response, Problem> {
    let limit = query.limit();
    let after = query.cursor.map(|AfterId(id)| id.to_string());
    let mut found = app.documents.list(SPACE, &who.tenant, after.as_deref(), limit + 1).await?;
    let more = found.len() > limit;
    found.truncate(limit);
    let next = found.last().filter(|_| more).map(|last| last.id.clone());
    let mut files = Vec::with_capacity(found.len());
    for Document { id, body: mut file, .. } in found {
        // Metadata outlives a file that was evicted.
        let Ok(own) = id.parse::<CallId>() else { continue };
        if app.engine.records().read_output(&who.tenant, own, 0, 0).await?.is_some() {
            file["id"] = json!(id);
            files.push(file);
        }
    }
    Ok(view::ok(&json!({"files": files, "next": next})))
}

async fn delete(
    State(app): State<Arc<App>>,
    Authenticated(who): Authenticated,
    name: PathName,
) -> Result<Response, Problem> {
    let (id, records) = (name.id::<CallId>("file")?, app.engine.records());
    let Some(file) = app.documents.get(SPACE, &who.tenant, &name.0).await? else {
        let kept = records.read_output(&who.tenant, id, 0, 0).await?;
        kept.ok_or_else(|| Problem::not_found("file"))?;
        return Err(Problem::conflict("this is the result of a call, which goes with its record")
            .hint("only files that were uploaded can be deleted"));
    };
    let is_own = file.body["owner"].as_str() == Some(&*who.key_id);
    if !is_own && !who.may(Permission::DeleteFiles) {
        let why = "somebody else uploaded this file";
        return Err(Problem::new(StatusCode::FORBIDDEN, "forbidden", why)
            .hint("only its owner or an admin can delete it"));
    }
    // The file first: if that fails, the metadata still leads to it.
    records.forget_output(&who.tenant, id).await?;
    app.documents.delete(SPACE, &who.tenant, &name.0, Expect::Anything).await?;
    let response = StatusCode::NO_CONTENT.into_response();
    if !is_own {
        let path = format!("/v1/files/{}", name.0);
        let (tenant, happened) = Performed { who, name: "delete_file", path }.answered(&response);
        app.write_down(&tenant, happened).await;
    }
    Ok(response)
}

async fn upload(
    State(app): State<Arc<App>>,
    Authenticated(who): Authenticated,
    request: Request,
) -> Result<Response, Problem> {
    let headers = request.headers().clone();
    let text = |name: &str| {
        let value = headers.get(name).and_then(|value| value.to_str().ok());
        value.filter(|value| (1..=255).contains(&value.len())).map(str::to_owned)
    };
    let media_type = text("content-type").unwrap_or_else(|| "application/octet-stream".to_owned());
    let name = text("x-file-name");
    let bytes = whole(request, &app).await?;
    let (id, size) = (CallId::at(Timestamp::now()), bytes.len());
    let _turn = app.quotas.making(&who.tenant, NewResource::File).await;
    app.quotas.allow_file(&*app.documents, &who, size as u64).await?;
    app.engine.records().keep_output(&who.tenant, id, bytes.to_vec()).await?;
    let about = json!({
        "size": size, "media_type": media_type, "name": name, "owner": who.key_id,
        "created_at": Timestamp::now(),
    });
    let mut put = Put::new(SPACE, who.tenant, id.to_string(), about.clone());
    put.expires_at = Timestamp::now().checked_add(LIFE).ok();
    app.documents.put(put, Expect::Anything).await?;
    let mut file = about;
    file["id"] = json!(id);
    let mut response = view::with_status(StatusCode::CREATED, &file);
    if let Ok(place) = HeaderValue::from_str(&format!("/v1/files/{id}")) {
        response.headers_mut().insert(header::LOCATION, place);
    }
    Ok(response)
}

async fn get(
    State(app): State<Arc<App>>,
    Authenticated(who): Authenticated,
    name: PathName,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    send(&app, &who.tenant, &name, &headers).await
}

/// Sends a file, or the requested range.
async fn send(
    app: &App,
    tenant: &TenantId,
    name: &PathName,
    headers: &HeaderMap,
) -> Result<Response, Problem> {
    let id: CallId = name.id("file")?;
    let range = headers.get(header::RANGE).and_then(|range| Range::read(range.to_str().ok()?));
    let records = app.engine.records();
    let (offset, limit) = match range {
        None => (0, MAX_PART),
        Some(Range::From { first, length }) => (first, length),
        Some(Range::Last(length)) => {
            let size = records.read_output(tenant, id, 0, 1).await?.map(|part| part.total_bytes);
            (size.unwrap_or_default().saturating_sub(length), length)
        }
    };
    let part = records.read_output(tenant, id, offset, limit.min(MAX_PART)).await?;
    let part = part.ok_or_else(|| Problem::not_found("file"))?;
    if range.is_some() && (offset >= part.total_bytes || limit == 0) {
        let why = format!("the file has {} bytes", part.total_bytes);
        let problem = Problem::new(StatusCode::RANGE_NOT_SATISFIABLE, "no_such_part", why);
        let range = [(header::CONTENT_RANGE, format!("bytes */{}", part.total_bytes))];
        return Ok((range, problem).into_response());
    }
    let about = app.documents.get(SPACE, tenant, &name.0).await?.map(|found| found.body);
    let media = about.as_ref().and_then(|about| about["media_type"].as_str());
    let media = media.unwrap_or("text/plain; charset=utf-8");
    let end = offset + part.bytes.len() as u64;
    let is_part = offset > 0 || end < part.total_bytes;
    let mut response = part.bytes.into_response();
    if is_part {
        *response.status_mut() = StatusCode::PARTIAL_CONTENT;
    }
    let out = response.headers_mut();
    let mut set = |name, value: &str| {
        if let Ok(value) = HeaderValue::from_str(value) {
            out.insert(name, value);
        }
    };
    set(header::CONTENT_TYPE, media);
    set(header::ACCEPT_RANGES, "bytes");
    if is_part {
        let last = end.saturating_sub(1);
        set(header::CONTENT_RANGE, &format!("bytes {offset}-{last}/{}", part.total_bytes));
    }
    // Uploads must not be rendered with our origin (stored XSS).
    set(header::X_CONTENT_TYPE_OPTIONS, "nosniff");
    set(header::CONTENT_SECURITY_POLICY, "default-src 'none'; sandbox");
    let essence = media.split(';').next().unwrap_or_default().trim();
    let how = if HARMLESS.contains(&essence) { "inline" } else { "attachment" };
    let name = about.as_ref().and_then(|about| about["name"].as_str());
    match name.map(|name| utf8_percent_encode(name, NON_ALPHANUMERIC)) {
        Some(name) => set(header::CONTENT_DISPOSITION, &format!("{how}; filename*=UTF-8''{name}")),
        None => set(header::CONTENT_DISPOSITION, how),
    }
    Ok(response)
}

/// A range of a file.
#[derive(Clone, Copy)]
enum Range {
    From {
        first: u64,
        length: u64,
    },
    /// So many bytes at its end.
    Last(u64),
}

impl Range {
    /// One part; anything else is not understood, which means the whole.
    fn read(text: &str) -> Option<Self> {
        let (first, last) = text.strip_prefix("bytes=")?.split_once('-')?;
        let (first, last) = (first.trim(), last.trim());
        if first.is_empty() {
            return last.parse().ok().map(Self::Last);
        }
        let first: u64 = first.parse().ok()?;
        let length = match last {
            "" => MAX_PART,
            last => (last.parse::<u64>().ok()?.checked_sub(first)?).saturating_add(1),
        };
        Some(Self::From { first, length })
    }
}

/// The lifetime of a link.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct LinkBody {
    /// One hour by default; at most 30 days.
    #[serde(default)]
    expires_in: Option<DurationBody>,
}

/// A signed link.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "Link")]
struct LinkDoc {
    /// The path, relative to the server's URL.
    url: String,
    /// When it expires.
    #[schemars(schema_with = "shape::time")]
    expires_at: String,
}

async fn link(
    State(app): State<Arc<App>>,
    Authenticated(who): Authenticated,
    name: PathName,
    JsonBody(body): JsonBody<LinkBody>,
) -> Result<Response, Problem> {
    let id: CallId = name.id("file")?;
    let found = app.engine.records().read_output(&who.tenant, id, 0, 1).await?;
    found.ok_or_else(|| Problem::not_found("file"))?;
    let life = body.expires_in.map(|span| span.read("/expires_in")).transpose()?;
    let life = life.unwrap_or(LINK_LIFE).min(MAX_LINK_LIFE);
    let expires = Timestamp::now().as_second().saturating_add_unsigned(life.as_secs());
    let tenant = URL_SAFE_NO_PAD.encode(who.tenant.as_str());
    let signature = app.links.sign(&who.tenant, &id.to_string(), expires);
    let url =
        format!("/v1/files/{id}/content?tenant={tenant}&expires={expires}&signature={signature}");
    let expires_at = Timestamp::from_second(expires).unwrap_or(Timestamp::MAX).to_string();
    Ok(view::ok(&LinkDoc { url, expires_at }))
}

/// The query of a signed link.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct LinkQuery {
    /// The tenant of the file.
    tenant: String,
    /// When the link expires, in seconds since 1970.
    expires: i64,
    /// Shows that we made it.
    signature: String,
}

async fn linked(
    State(app): State<Arc<App>>,
    name: PathName,
    QueryString(query): QueryString<LinkQuery>,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    // The same response for invalid, expired and dangling links, against probing.
    let unknown = || Problem::not_found("file");
    let tenant =
        URL_SAFE_NO_PAD.decode(&query.tenant).ok().and_then(|it| String::from_utf8(it).ok());
    let tenant = TenantId::new(tenant.ok_or_else(unknown)?);
    let is_ours = app.links.is_ours(&tenant, &name.0, query.expires, &query.signature);
    if !is_ours || Timestamp::now().as_second() >= query.expires {
        return Err(unknown());
    }
    send(&app, &tenant, &name, &headers).await
}

/// Signs links.
pub(crate) struct Links(Hmac<Sha256>);

impl Links {
    /// All servers of a database sign with the same key; the first makes it.
    pub(crate) async fn new(documents: &dyn Documents) -> Result<Self, Error> {
        let tenant = TenantId::default();
        let made = URL_SAFE_NO_PAD.encode(*random::bytes::<32>()?);
        let put = Put::new(SERVER, tenant.clone(), LINK_KEY, json!({"key": made}));
        documents.put(put, Expect::Absent).await?;
        let kept = documents.get(SERVER, &tenant, LINK_KEY).await?;
        let key = kept.as_ref().and_then(|kept| kept.body["key"].as_str());
        let bytes = key.and_then(|key| URL_SAFE_NO_PAD.decode(key).ok());
        let bad = || Error::new(ErrorKind::Internal, "the key of file links cannot be read");
        Self::with_key(&bytes.ok_or_else(bad)?).ok_or_else(bad)
    }

    pub(crate) fn with_key(key: &[u8]) -> Option<Self> {
        Hmac::new_from_slice(key).ok().map(Self)
    }

    /// The key, for what else all servers sign alike.
    pub(crate) fn key(&self) -> Hmac<Sha256> {
        self.0.clone()
    }

    fn mac(&self, tenant: &TenantId, id: &str, expires: i64) -> Hmac<Sha256> {
        let mut mac = self.0.clone();
        for part in [tenant.as_str(), id, &expires.to_string()] {
            mac.update(&(part.len() as u64).to_be_bytes());
            mac.update(part.as_bytes());
        }
        mac
    }

    fn sign(&self, tenant: &TenantId, id: &str, expires: i64) -> String {
        URL_SAFE_NO_PAD.encode(self.mac(tenant, id, expires).finalize().into_bytes())
    }

    /// Constant-time comparison.
    fn is_ours(&self, tenant: &TenantId, id: &str, expires: i64, signature: &str) -> bool {
        let Ok(signature) = URL_SAFE_NO_PAD.decode(signature) else { return false };
        self.mac(tenant, id, expires).verify_slice(&signature).is_ok()
    }
}
