local conditions = {}
if obj.status ~= nil and obj.status.conditions ~= nil then
  for _, condition in ipairs(obj.status.conditions) do
    conditions[condition.type] = condition
  end
end

-- Whether a condition has a status, and is about the present spec where it says what it is about.
local function is(type, status)
  local condition = conditions[type]
  if condition == nil or condition.status ~= status then
    return false
  end
  local observed = condition.observedGeneration
  return observed == nil or observed == 0 or observed >= (obj.metadata.generation or 0)
end

local function health(status, type, otherwise)
  local condition = conditions[type]
  local message = otherwise
  if condition ~= nil and condition.message ~= nil and condition.message ~= "" then
    message = condition.message
  end
  return { status = status, message = message }
end

local hub = conditions["HubConnectionDegraded"]
if is("HubConnectionDegraded", "True") then
  -- The agent has a working bootstrap identity and waits to be accepted.
  if hub.reason == "BootstrapSecretFunctional,HubKubeConfigSecretMissing" then
    return health("Progressing", "HubConnectionDegraded", "the cluster joins")
  end
  return health("Degraded", "HubConnectionDegraded", "the hub cannot be reached")
end
if is("Applied", "False") then
  return health("Degraded", "Applied", "the agent is not applied")
end
if is("Available", "False") then
  return health("Degraded", "Available", "the agent is not available")
end
if is("Available", "True") and is("HubConnectionDegraded", "False") then
  return health("Healthy", "Available", "the agent is available")
end
return { status = "Progressing", message = "the agent starts" }
