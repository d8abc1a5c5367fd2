// An OpenID provider by panva/oidc-provider, which signs users in by its development pages and sends back-channel
// logouts. Arguments: port, redirect URI of the client, its back-channel logout URI; and those of a second client: its
// redirect URI, and where it goes after a logout.
import Provider from "oidc-provider";

const [port, redirect, logout, other, bye] = process.argv.slice(2);
const secret = "a-secret-of-the-tests-only";
const issuer = `http://127.0.0.1:${port}`;
const provider = new Provider(issuer, {
  clients: [{
    client_id: "shop", client_secret: secret, redirect_uris: [redirect],
    backchannel_logout_uri: logout, backchannel_logout_session_required: true,
    post_logout_redirect_uris: [redirect], application_type: "web",
  }, ...(other ? [{
    client_id: "other", client_secret: secret, redirect_uris: [other], post_logout_redirect_uris: [bye],
  }] : [])],
  cookies: { keys: ["a-key-of-the-tests-only"] },
  features: { devInteractions: { enabled: true }, backchannelLogout: { enabled: true }, rpInitiatedLogout: { enabled: true } },
  pkce: { required: () => false },
  fetch: (url, options) => fetch(url, { ...options, dispatcher: undefined }),
  findAccount: (_, id) => ({ accountId: id, claims: () => ({ sub: id }) }),
});
provider.on("backchannel.success", () => console.log("sent"));
provider.on("backchannel.error", (_ctx, error) => console.log(`failed: ${error.message}`));
provider.listen(Number(port), "127.0.0.1", () => console.log(`listening ${issuer}`));
