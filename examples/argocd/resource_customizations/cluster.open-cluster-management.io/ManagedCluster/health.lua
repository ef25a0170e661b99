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

if obj.spec == nil or not obj.spec.hubAcceptsClient then
  return { status = "Suspended", message = "the hub has not accepted the cluster" }
end
if is("ManagedClusterConditionAvailable", "True") then
  return health("Healthy", "ManagedClusterConditionAvailable", "the cluster is available")
end
if not is("ManagedClusterJoined", "True") then
  return { status = "Progressing", message = "the cluster has not joined" }
end
if conditions["ManagedClusterConditionAvailable"] == nil then
  return { status = "Progressing", message = "the cluster has not reported yet" }
end
return health("Degraded", "ManagedClusterConditionAvailable", "the cluster is not available")
