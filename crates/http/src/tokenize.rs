//! `POST /tokenize` and `/detokenize`, as llama-server documents them.

use std::fmt;
use std::marker::PhantomData;
use std::sync::Arc;

use clef_record::TokenId;
use hyper::{HeaderMap, StatusCode};
use serde::de::value::MapAccessDeserializer;
use serde::de::{Error, MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize};

use crate::body::{Body, RequestBody};
use crate::context::Context;
use crate::error::Failure;
use crate::model::{Model, Text, TokenizeOptions};
use crate::reply::Reply;

/// The longest body: longer than the text of any context. Tokenizing takes about a hundred times a text's memory, so the
/// general limit would be too much here.
const MAX_BYTES: usize = 1 << 20;

/// Requests that are worked on at once, for the same reason; others wait.
pub(crate) const MAX_AT_ONCE: usize = 2;

#[derive(Deserialize)]
struct TokenizeRequest {
    #[serde(default)]
    content: Content,
    #[serde(default)]
    add_special: bool,
    #[serde(default = "yes")]
    parse_special: bool,
    #[serde(default)]
    with_pieces: bool,
}

fn yes() -> bool {
    true
}

/// A text, or a list of texts and tokens. None is an empty list, as in llama-server.
#[derive(Default)]
struct Content(Vec<Part>);

enum Part {
    Text(String),
    Token(i32),
}

impl<'de> Deserialize<'de> for Content {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(ContentVisitor)
    }
}

struct ContentVisitor;

impl<'de> Visitor<'de> for ContentVisitor {
    type Value = Content;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a string, or an array of strings and tokens")
    }

    fn visit_str<E>(self, text: &str) -> Result<Content, E> {
        Ok(Content(vec![Part::Text(text.to_owned())]))
    }

    fn visit_string<E>(self, text: String) -> Result<Content, E> {
        Ok(Content(vec![Part::Text(text)]))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Content, A::Error> {
        let mut parts = Vec::new();
        while let Some(part) = list.next_element()? {
            parts.push(part);
        }
        Ok(Content(parts))
    }
}

impl<'de> Deserialize<'de> for Part {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(PartVisitor)
    }
}

struct PartVisitor;

impl Visitor<'_> for PartVisitor {
    type Value = Part;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a string or a token")
    }

    fn visit_str<E>(self, text: &str) -> Result<Part, E> {
        Ok(Part::Text(text.to_owned()))
    }

    fn visit_i64<E: Error>(self, token: i64) -> Result<Part, E> {
        IdVisitor.visit_i64(token).map(|Id(token)| Part::Token(token))
    }

    fn visit_u64<E: Error>(self, token: u64) -> Result<Part, E> {
        IdVisitor.visit_u64(token).map(|Id(token)| Part::Token(token))
    }
}

/// A token's number, which need not be one of the vocabulary.
struct Id(i32);

impl<'de> Deserialize<'de> for Id {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(IdVisitor)
    }
}

struct IdVisitor;

impl Visitor<'_> for IdVisitor {
    type Value = Id;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a token")
    }

    fn visit_i64<E: Error>(self, token: i64) -> Result<Id, E> {
        i32::try_from(token).map(Id).map_err(|_| E::custom(no_token(token)))
    }

    fn visit_u64<E: Error>(self, token: u64) -> Result<Id, E> {
        i32::try_from(token).map(Id).map_err(|_| E::custom(no_token(token)))
    }
}

fn no_token(token: impl fmt::Display) -> String {
    format!("the vocabulary has no token {token}")
}

/// What is written as an object. Serde takes a struct's fields from an array, too.
struct Object<R>(R);

impl<'de, R: Deserialize<'de>> Deserialize<'de> for Object<R> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(ObjectVisitor(PhantomData))
    }
}

struct ObjectVisitor<R>(PhantomData<R>);

impl<'de, R: Deserialize<'de>> Visitor<'de> for ObjectVisitor<R> {
    type Value = Object<R>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Object<R>, A::Error> {
        R::deserialize(MapAccessDeserializer::new(map)).map(Object)
    }
}

#[derive(Serialize)]
#[serde(untagged)]
enum Tokens {
    Ids { tokens: Vec<i32> },
    Pieces { tokens: Vec<TokenWithPiece> },
}

#[derive(Serialize)]
struct TokenWithPiece {
    id: i32,
    piece: Piece,
}

/// A token's text, or its bytes where they are no whole characters.
#[derive(Serialize)]
#[serde(untagged)]
enum Piece {
    Text(String),
    Bytes(Vec<u8>),
}

pub(crate) async fn tokenize(
    context: &Context,
    model: &Model,
    headers: &HeaderMap,
    body: &mut RequestBody,
) -> Result<Reply, Failure> {
    apart(context, model, headers, body, |text, request: TokenizeRequest| {
        let options = TokenizeOptions { add_special: request.add_special, parse_special: request.parse_special };
        let mut tokens = Vec::new();
        for (index, part) in request.content.0.into_iter().enumerate() {
            match part {
                Part::Token(token) => {
                    bytes_of(text, token, "content", index)?;
                    tokens.push(token);
                }
                Part::Text(part) => {
                    // What goes around a text goes around the whole.
                    let options = TokenizeOptions { add_special: options.add_special && index == 0, ..options };
                    let found = text.tokenize(&part, options).map_err(Failure::fault)?;
                    tokens.extend(found.into_iter().map(|TokenId(token)| token));
                }
            }
        }
        if !request.with_pieces {
            return Ok(Reply::json(StatusCode::OK, &Tokens::Ids { tokens }));
        }
        let with_piece = |id| {
            // The vocabulary made it, or has been asked for it.
            let bytes = text.piece(TokenId(id)).ok_or_else(|| Failure::fault(no_token(id)))?;
            Ok(TokenWithPiece { id, piece: into_piece(bytes) })
        };
        let tokens = tokens.into_iter().map(with_piece).collect::<Result<_, Failure>>()?;
        Ok(Reply::json(StatusCode::OK, &Tokens::Pieces { tokens }))
    })
    .await
}

#[derive(Deserialize)]
struct DetokenizeRequest {
    #[serde(default)]
    tokens: Vec<Id>,
}

#[derive(Serialize)]
struct Detokenized<'a> {
    content: &'a str,
}

pub(crate) async fn detokenize(
    context: &Context,
    model: &Model,
    headers: &HeaderMap,
    body: &mut RequestBody,
) -> Result<Reply, Failure> {
    apart(context, model, headers, body, |text, request: DetokenizeRequest| {
        let mut bytes = Vec::new();
        for (index, Id(token)) in request.tokens.into_iter().enumerate() {
            bytes.extend(bytes_of(text, token, "tokens", index)?);
        }
        Ok(Reply::json(StatusCode::OK, &Detokenized { content: &String::from_utf8_lossy(&bytes) }))
    })
    .await
}

/// Reads a request and answers it on a thread that may block: a vocabulary takes its time.
async fn apart<R: for<'de> Deserialize<'de> + 'static>(
    context: &Context,
    model: &Model,
    headers: &HeaderMap,
    body: &mut RequestBody,
    answer: impl FnOnce(&dyn Text, R) -> Result<Reply, Failure> + Send + 'static,
) -> Result<Reply, Failure> {
    let Body { bytes, share } = body.read(context, headers, MAX_BYTES).await?;
    let text = model.text.as_ref().map(Arc::clone);
    let text = text.ok_or_else(|| Failure::not_supported("this server has no vocabulary to show"))?;
    let permit = Arc::clone(&context.tokenizers).acquire_owned().await.map_err(|_| Failure::shutting_down())?;
    let answered = tokio::task::spawn_blocking(move || {
        // Held until the end, whatever it is.
        let _held = (permit, share);
        let Object(request) = serde_json::from_slice(&bytes).map_err(|error| refused(&error))?;
        answer(&*text, request)
    });
    answered.await.map_err(|_| Failure::fault("the request failed in the server"))?
}

fn refused(error: &serde_json::Error) -> Failure {
    let slug = if error.is_data() { "value_error" } else { "json_invalid" };
    Failure::invalid(vec!["body".into(), error.column().into()], slug, format!("body is not valid: {error}"))
}

/// The bytes of a token that a client named, at a place in one of the body's fields.
fn bytes_of(text: &dyn Text, token: i32, field: &'static str, index: usize) -> Result<Vec<u8>, Failure> {
    text.piece(TokenId(token)).ok_or_else(|| {
        let loc = vec!["body".into(), field.into(), index.into()];
        Failure::invalid(loc, "value_error", no_token(token))
    })
}

fn into_piece(bytes: Vec<u8>) -> Piece {
    String::from_utf8(bytes).map_or_else(|error| Piece::Bytes(error.into_bytes()), Piece::Text)
}
