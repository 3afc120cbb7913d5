// Who asks, and what they may do: a page shows no button that its user has no right to press. The server decides anyway.

import { call } from "./call.js";

// { user: "", proof, grants, roles, isAdmin: may administer something, isSuperuser: everything }
export async function whoAmI(signal) {
  const reply = await call("Users/WhoAmI", {}, { signal });
  const admins = reply.grants.map((grant) => grant.split(" ")).filter(([rights]) => rights.split(",").includes("admin"));
  return {
    ...reply,
    isAdmin: reply.user === "" || admins.length > 0,
    isSuperuser: reply.user === "" || admins.some(([, table]) => table === "*"),
  };
}
