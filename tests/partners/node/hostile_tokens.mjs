// Logout tokens signed by jose, one a line: first a right one, then ones that must count for nothing.
// node hostile_tokens.mjs ISSUER AUDIENCE NUMBER < private key as a JSON Web Key, with its kid
import { readFileSync } from "node:fs";
import { SignJWT, exportSPKI, exportJWK, generateKeyPair, importJWK } from "jose";

const [issuer, audience, number] = process.argv.slice(2);
const own = JSON.parse(readFileSync(0, "utf8"));
const key = await importJWK(own, "RS256");
const publicKey = await importJWK({ kty: own.kty, n: own.n, e: own.e }, "RS256", { extractable: true });
const pem = new TextEncoder().encode(await exportSPKI(publicKey));
const others = { RS256: "RS256", PS256: "PS256", ES256: "ES256", EdDSA: "EdDSA", RS512: "RS512" };
for (const name of Object.keys(others)) others[name] = await generateKeyPair(name, { extractable: true });
const embedded = await exportJWK(others.RS256.publicKey);

const now = Math.floor(Date.now() / 1000);
const event = "http://schemas.openid.net/event/backchannel-logout";
let count = 0;
const claims = (changed = {}) => ({
  iss: issuer, aud: audience, iat: now, exp: now + 120, jti: `jose-${(count += 1)}`, sub: "ada", sid: "sid-1",
  events: { [event]: {} }, ...changed,
});
const sign = (changed, header = {}, by = key) =>
  new SignJWT(claims(changed)).setProtectedHeader({ alg: "RS256", kid: own.kid, typ: "logout+jwt", ...header }).sign(by);
const encoded = (value) => Buffer.from(JSON.stringify(value)).toString("base64url");

const pick = (list) => list[Math.floor(Math.random() * list.length)];
const odd = [undefined, null, 0, -1, 1e300, true, "", " ", "x", [], {}, [null], "\u0000", "é", "a".repeat(5000), [[["x"]]], now + 1e6];
const makers = [
  ...Object.entries(others).map(([alg, pair]) => () => sign({}, { alg }, pair.privateKey)), // another key
  () => sign({}, { alg: "HS256" }, pem), // the public key as a secret
  () => sign({}, { alg: "RS256", jwk: embedded }, others.RS256.privateKey), // a key of its own in the header
  () => sign({}, { jku: `${issuer}/other`, kid: `k${count}` }, others.RS256.privateKey),
  () => sign({}, { typ: pick(["JWT", "at+jwt", "dpop+jwt", "logout"]) }),
  () => sign({ nonce: "n" }),
  () => sign({ [pick(["iss", "aud", "iat", "exp", "events"])]: pick(odd) }),
  () => sign({ jti: pick([undefined, null, 0, true, "", " ", [], {}]) }),
  () => sign({ sub: pick([undefined, null, "", "x".repeat(300)]), sid: pick([undefined, null, "", 7, "x".repeat(300)]) }),
  () => sign({ iat: now - 90000, exp: now - 3600 }),
  async () => `${encoded({ alg: "none", typ: "logout+jwt", kid: own.kid })}.${encoded(claims())}.`,
  async () => {
    const parts = (await sign({})).split(".");
    const at = Math.floor(Math.random() * 3), place = Math.floor(Math.random() * (parts[at].length - 1));
    const flipped = parts[at][place] === "A" ? "B" : "A";
    parts[at] = parts[at].slice(0, place) + flipped + parts[at].slice(place + 1);
    return parts.join(".");
  },
  async () => (await sign({})).slice(0, -1 - Math.floor(Math.random() * 300)),
  async () => { const [head, , signature] = (await sign({})).split("."); return `${head}.${encoded(claims({ sub: "eve" }))}.${signature}`; },
];
console.log(await sign({}));
for (let made = 0; made < Number(number); made += 1) console.log(await makers[made % makers.length]());
